#pragma once

#include "core/tensor.h"

/// What linear() and fused_linear() share.
namespace brigade::autograd {

/// [..., features] as [N, features].
Tensor rows_of(const Tensor& x);

/// y [..., out] for x [..., in] and w [out, in], not filled. Throws Error if x is a scalar or w is
/// not a matrix.
Tensor empty_output(const Tensor& x, const Tensor& w);

}  // namespace brigade::autograd
