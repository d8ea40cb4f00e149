#pragma once

#include "autograd/variable.h"

namespace brigade::autograd {

// Functions of each element, as in PyTorch. x and the result have equal shapes. Backward keeps x or
// the result, whichever gives the shorter derivative, so that each function keeps one tensor.

/// max(x, 0). NaN stays NaN; the derivative at 0 is 0.
Variable relu(const Variable& x);
Variable neg(const Variable& x);
Variable exp(const Variable& x);
/// Natural logarithm: -inf at 0, NaN below.
Variable log(const Variable& x);
/// NaN below 0. The derivative at 0 is infinite.
Variable sqrt(const Variable& x);
Variable square(const Variable& x);
Variable tanh(const Variable& x);
/// 1 / (1 + exp(-x))
Variable sigmoid(const Variable& x);
/// 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))), as torch.nn.functional.gelu(approximate="tanh")
/// (arXiv:1606.08415).
Variable gelu(const Variable& x);

}  // namespace brigade::autograd
