#pragma once

#include "autograd/variable.h"

namespace brigade::nn {

/// A training objective: a scalar to call backward() on. `prediction` has one row per sample.
using Loss = autograd::Variable(const autograd::Variable& prediction, const Tensor& target);

/// Mean over labels of -log softmax(x)[label], as torch.nn.functional.cross_entropy.
///
///   x: [..., classes]   labels: i64 [...]   result: scalar
autograd::Variable cross_entropy(const autograd::Variable& x, const Tensor& labels);

/// Mean of (x - target)² over all elements. `target` has the shape of x, or it holds class labels,
/// i64 [N], which stand for their one-hot rows.
autograd::Variable mse_loss(const autograd::Variable& x, const Tensor& target);

}  // namespace brigade::nn
