#include "nn/cross_entropy_loss.h"

#include "autograd/functions/cross_entropy_loss.h"

namespace brigade::nn {

autograd::Variable CrossEntropyLoss::operator()(const autograd::Variable& prediction,
                                                const Tensor& target) const {
  return autograd::cross_entropy_loss(prediction, target);
}

}  // namespace brigade::nn
