#pragma once

#include "autograd/functions/loss.h"

namespace brigade::nn {

/// A training objective: a scalar to call backward() on. `prediction` has one row per sample.
using Loss = autograd::Variable(const autograd::Variable& prediction, const Tensor& target);

using autograd::cross_entropy;
using autograd::mse_loss;

}  // namespace brigade::nn
