#pragma once

#include "autograd/variable.h"

namespace brigade::autograd {

/// y = x Wᵀ + b, one sample per row.
///
///   x: [..., in]   w: [out, in]   b: [out] or undefined   y: [..., out]
///
/// W is stored [out, in] so that dW = dyᵀ x has W's own layout: the GEMM writes dW straight into
/// W's slice of a gradient bucket (dist/ddp/bucket.h) and the all-reduce needs no copy. Backward
/// needs x (for dW) and W (for dx = dy W); both stay alive until then. db is the column sum of dy.
/// Throws Error if x is not [..., in]. Enqueues on the compute stream; never waits for the device.
Variable linear(const Variable& x, const Variable& w, const Variable& b);

}  // namespace brigade::autograd
