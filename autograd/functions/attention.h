#pragma once

#include <cstdint>

#include "autograd/variable.h"
#include "core/kernel_args.h"

namespace brigade::autograd {

/// Causal self-attention of several heads (Vaswani et al., arXiv:1706.03762, section 3.2): position
/// i of a sequence becomes a mean of the values at positions j <= i, weighted by
/// softmax_j(q_i · k_j / √D).
///
///   qkv: [N, T, 3 W], q, k and v of all heads one after the other   result: [N, T, W]
///   D = W / heads: a head's width
///
/// Never stores the T x T weights (core/cpu/attention.cpp). Forward keeps qkv, the result and a
/// number per row and head, from which backward computes the weights again. `dropout` drops weights
/// as functions/dropout.h drops elements of a tensor [N, heads, T, T]. Error: other shapes,
/// dropout.p not in [0, 1). tests/autograd/attention_test.cpp has the same in a few lines of matmul
/// and softmax.
Variable causal_attention(const Variable& qkv, std::int64_t heads, DropoutArgs dropout = {});

}  // namespace brigade::autograd
