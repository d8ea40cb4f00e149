#include "nn/loss.h"

#include "autograd/functions/loss.h"
#include "core/ops.h"

namespace brigade::nn {

using autograd::Variable;

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

}  // namespace brigade::nn
