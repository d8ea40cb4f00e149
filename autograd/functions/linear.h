#pragma once

#include "autograd/variable.h"

namespace brigade::autograd {

/// What a layer multiplies. `bf16`: x, W and dy are rounded to bf16 and their products added up in
/// f32, while weights, results and gradients stay f32; what an activation function keeps for its
/// backward is rounded, too (mixed precision with f32 master weights,
/// Micikevicius et al. 2018, section 3.1). bf16 has the exponents of f32, so no gradient is lost
/// below its least number and the loss needs no scaling.
enum class Precision : bool { full, bf16 };

/// y = x Wᵀ + b, one sample per row.
///
///   x: [..., in]   w: [out, in]   b: [out] or undefined   y: [..., out]
///
/// W is stored [out, in] so that dW = dyᵀ x has W's own layout: the GEMM writes dW straight into
/// W's slice of a gradient bucket (dist/ddp/bucket.h) and the all-reduce needs no copy. Backward
/// needs x (for dW) and W (for dx = dy W); both stay alive until then, with bf16 their rounded
/// copies. In full precision, an x from layer_norm or linear_gelu is computed again instead. db is
/// the column sum of dy. Throws Error if x is not [..., in]. Enqueues on the compute stream; never
/// waits for the device.
Variable linear(const Variable& x, const Variable& w, const Variable& b,
                Precision precision = Precision::full);

/// relu(linear(x, w, b)) as one node, on the CPU with the same bits: bias and ReLU are at most one
/// pass over y, and backward masks dy and sums db in one pass. With bf16 only the rounded y stays,
/// which a linear() behind this multiplies (Variable::rounded).
Variable linear_relu(const Variable& x, const Variable& w, const Variable& b,
                     Precision precision = Precision::full);

/// gelu(linear(x, w, b)) as one node, likewise. Saves what GELU is applied to (with bf16 rounded)
/// and not the result, which a linear() behind this computes again in backward, in full precision
/// (Variable::set_recompute).
Variable linear_gelu(const Variable& x, const Variable& w, const Variable& b,
                     Precision precision = Precision::full);

}  // namespace brigade::autograd
