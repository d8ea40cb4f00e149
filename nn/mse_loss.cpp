#include "nn/mse_loss.h"

#include "autograd/functions/mse_loss.h"
#include "core/ops.h"

namespace brigade::nn {

autograd::Variable MSELoss::operator()(const autograd::Variable& prediction,
                                       const Tensor& target) const {
  if (target.dtype() != DType::i64) {
    return autograd::mse_loss(prediction, target);
  }
  Tensor rows = Tensor::empty_like(prediction.data());
  ops::one_hot(target, rows);
  return autograd::mse_loss(prediction, rows);
}

}  // namespace brigade::nn
