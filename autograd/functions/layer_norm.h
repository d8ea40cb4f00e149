#pragma once

#include "autograd/variable.h"

namespace brigade::autograd {

/// Normalizes the last dimension, as torch.nn.functional.layer_norm (Ba et al., arXiv:1607.06450).
///
///   y = x̂ weight + bias,  x̂ = (x - mean) / √(variance + eps), the variance with divisor D
///   x, y: [..., D]   weight, bias: [D] or undefined
///
/// Backward needs x and, per row, the mean and 1 / √(variance + eps), which forward saves. It
/// writes dweight = Σ dy x̂ and dbias = Σ dy first, because the network waits for parameters. A
/// fused_linear() behind this saves no y but computes it again, from x, weight and bias; with bf16
/// it saves y rounded. linear() saves y.
Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias,
                    double eps = 1e-5);

}  // namespace brigade::autograd
