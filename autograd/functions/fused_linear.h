#pragma once

#include "autograd/variable.h"
#include "core/kernel_args.h"

namespace brigade::autograd {

/// What a layer multiplies. `bf16`: x, W and dy are rounded to bf16 and their products added up in
/// f32, while weights, results and gradients stay f32; what an activation function keeps for its
/// backward is rounded, too (mixed precision with f32 master weights,
/// Micikevicius et al. 2018, section 3.1). bf16 has the exponents of f32, so no gradient is lost
/// below its least number and the loss needs no scaling.
enum class Precision : bool { full, bf16 };

/// activation(linear(x, w, b)) as one node; shapes as in linear.h. Without an activation in full
/// precision it is linear() itself, unless x can be computed again in backward. Bias and activation
/// take at most one pass over y. Backward computes dz, the gradient of z = x Wᵀ + b, and db in one
/// pass. In full precision the CPU gives the bits of linear() and activation one after the other.
///
/// The node keeps for backward x, W and
///
///   ReLU   y; with bf16 only rounded, which a fused_linear() of y reuses (Variable::rounded)
///   GELU   z; a layer behind it computes y from z again, or with bf16 keeps y rounded
///          (Variable::set_recompute)
///
/// x, W and z are rounded with bf16. Throws Error as linear() does, and with bf16 if x or W is not
/// f32.
Variable fused_linear(const Variable& x, const Variable& w, const Variable& b,
                      Activation activation, Precision precision = Precision::full);

}  // namespace brigade::autograd
