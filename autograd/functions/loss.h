#pragma once

#include "autograd/variable.h"

namespace brigade::autograd {

/// Mean over labels of -log softmax(x)[label], as torch.nn.CrossEntropyLoss.   x: [..., classes]
/// labels: i64 [...]
Variable cross_entropy_loss(const Variable& x, const Tensor& labels);

/// Mean of (x - target)² over all elements, as torch.nn.MSELoss.
///
///   x, target: equal shapes   result: scalar   dx = 2 (x - target) / elements
Variable mse_loss(const Variable& x, const Tensor& target);

}  // namespace brigade::autograd
