#pragma once

#include "autograd/variable.h"

namespace brigade::autograd {

/// Mean over rows of -log softmax(x)[label], as torch.nn.CrossEntropyLoss.   x: [N, classes]
/// labels: i64 [N]
Variable cross_entropy_loss(const Variable& x, const Tensor& labels);

}  // namespace brigade::autograd
