#pragma once

#include "autograd/variable.h"

namespace brigade::autograd {

/// The matrix product, as torch.matmul, in two cases:
///
///   a: [..., m, k]   b: [k, n]        y: [..., m, n]   one b for all matrices of a
///   a: [..., m, k]   b: [..., k, n]   y: [..., m, n]   equal leading dimensions, pair by pair
///
/// Backward needs a and b: dA = dY Bᵀ, dB = Aᵀ dY (in the first case summed over the leading
/// dimensions). db is written first, because b is usually the parameter. Throws Error for other
/// shapes: vectors and broadcast leading dimensions need a reshape.
Variable matmul(const Variable& a, const Variable& b);

}  // namespace brigade::autograd
