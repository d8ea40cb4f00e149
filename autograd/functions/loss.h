#pragma once

#include "autograd/variable.h"

namespace brigade::autograd {

/// Mean over labels of -log softmax(x)[label], as torch.nn.functional.cross_entropy.
///
///   x: [..., classes]   labels: i64 [...]   result: scalar
Variable cross_entropy(const Variable& x, const Tensor& labels);

/// Mean of (x - target)² over all elements, as torch.nn.MSELoss. `target` has the shape of x, or it
/// holds class labels, i64 [N], which stand for their one-hot rows.
///
///   result: scalar   dx = 2 (x - target) / elements
Variable mse_loss(const Variable& x, const Tensor& target);

}  // namespace brigade::autograd
