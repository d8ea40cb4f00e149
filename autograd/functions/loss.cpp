#include "autograd/functions/loss.h"

#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {

// Forward keeps the softmax [N, classes]: backward needs no exp.
Variable cross_entropy_loss(const Variable& x, const Tensor& labels) {
  Tensor loss = Tensor::empty_like(x.data(), {});
  Tensor softmax = Tensor::empty_like(x.data());
  ops::cross_entropy(x.data(), labels, softmax, loss);
  return record("cross_entropy_loss", loss, x,
                [softmax, labels](const Tensor& dy, Tensor& dx, Scale scale) {
                  ops::cross_entropy_backward(softmax, labels, dy, scale, dx);
                });
}

Variable mse_loss(const Variable& x, const Tensor& target) {
  Tensor loss = Tensor::empty_like(x.data(), {});
  ops::mse(x.data(), target, loss);
  return record("mse_loss", loss, x,
                [x = x.data(), target](const Tensor& dy, Tensor& dx, Scale scale) {
                  ops::mse_backward(x, target, dy, scale, dx);
                });
}

}  // namespace brigade::autograd
