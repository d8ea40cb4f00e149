#include "nn/loss.h"

#include "autograd/functions/cross_entropy_loss.h"
#include "autograd/functions/mse_loss.h"
#include "core/error.h"
#include "core/ops.h"

namespace brigade::nn {

using autograd::Variable;

namespace {

const Tensor& constant(const char* loss, const Variable& target) {
  BRIGADE_CHECK(!target.requires_grad(), loss,
                ": expected a constant target, got one that requires a gradient; write the loss "
                "as arithmetic on Variables instead");
  return target.data();
}

}  // namespace

Variable cross_entropy(const Variable& x, const Tensor& labels) {
  return autograd::cross_entropy_loss(x, labels);
}

Variable mse_loss(const Variable& x, const Tensor& target) {
  if (target.dtype() != DType::i64) {
    return autograd::mse_loss(x, target);
  }
  Tensor rows = Tensor::empty_like(x.data());
  ops::one_hot(target, rows);
  return autograd::mse_loss(x, rows);
}

Variable cross_entropy(const Variable& x, const Variable& labels) {
  return nn::cross_entropy(x, constant("cross_entropy", labels));
}

Variable mse_loss(const Variable& x, const Variable& target) {
  return nn::mse_loss(x, constant("mse_loss", target));
}

}  // namespace brigade::nn
