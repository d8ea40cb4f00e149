#pragma once

#include <cstdint>

#include "nn/linear.h"
#include "nn/module.h"

namespace brigade::nn {

/// What a layer remembers of the positions before, to compute the next one alone.
struct KeysAndValues {
  Tensor keys, values;  ///< [heads, most positions, D], the first `length` of them are known
  std::int64_t length = 0;
};

/// Causal self-attention (autograd/functions/attention.h) between its two Linear layers, as in
/// GPT-2.   c_attn: W to 3 W   c_proj: W to W
class CausalSelfAttention final : public Module {
 public:
  /// In training each attention weight is dropped with probability `dropout`.
  /// Error: `heads` does not divide `width`; of forward in training: `dropout` is not in [0, 1).
  CausalSelfAttention(std::int64_t width, std::int64_t heads, autograd::Precision precision,
                      double dropout = 0.0);

  /// x, result: [N, T, W]
  Variable forward(const Variable& x) override;
  /// The result for the position after those in `before`, which it joins.   x, result: [1, 1, W]
  /// Without gradients.
  Variable forward_next(const Variable& x, KeysAndValues& before);

 private:
  std::int64_t heads_;
  double dropout_;
  Linear c_attn_, c_proj_;
};

}  // namespace brigade::nn
