#include "autograd/functions/loss.h"

#include <algorithm>

#include "autograd/node.h"
#include "core/error.h"
#include "core/ops.h"

namespace brigade::autograd {

// Forward keeps the softmax [N, classes]: backward needs no exp.
Variable cross_entropy(const Variable& x, const Tensor& labels) {
  const std::size_t last = std::max<std::size_t>(x.shape().rank(), 1) - 1;
  BRIGADE_CHECK(labels.dtype() == DType::i64, "cross_entropy: expected labels of dtype i64");
  BRIGADE_CHECK(x.shape().rank() == labels.shape().rank() + 1 &&
                    std::ranges::equal(x.shape().extents().first(last), labels.shape().extents()),
                "cross_entropy: expected x [..., classes] and labels [...], got {} and {}",
                x.shape(), labels.shape());
  const Tensor rows = x.data().reshape({labels.numel(), x.shape()[last]});
  const Tensor flat_labels = labels.reshape({labels.numel()});
  Tensor loss = Tensor::empty_like(rows, {});
  Tensor softmax = Tensor::empty_like(rows);
  ops::cross_entropy(rows, flat_labels, softmax, loss);
  return record("cross_entropy_loss", loss, x,
                [softmax, flat_labels](const Tensor& dy, Tensor& dx, Scale scale) {
                  Tensor dx_rows = dx.reshape(softmax.shape());
                  ops::cross_entropy_backward(softmax, flat_labels, dy, scale, dx_rows);
                });
}

Variable mse_loss(const Variable& x, const Tensor& target) {
  if (target.dtype() == DType::i64) {
    Tensor rows = Tensor::empty_like(x.data());
    ops::one_hot(target, rows);
    return mse_loss(x, rows);
  }
  Tensor loss = Tensor::empty_like(x.data(), {});
  ops::mse(x.data(), target, loss);
  return record("mse_loss", loss, x,
                [x = x.data(), target](const Tensor& dy, Tensor& dx, Scale scale) {
                  ops::mse_backward(x, target, dy, scale, dx);
                });
}

}  // namespace brigade::autograd
