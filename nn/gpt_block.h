#pragma once

#include <cstdint>

#include "nn/attention.h"
#include "nn/dropout.h"
#include "nn/layer_norm.h"
#include "nn/linear.h"
#include "nn/module.h"

namespace brigade::nn {

struct GPTOptions {
  std::int64_t layers = 4, heads = 4, width = 128;
  std::int64_t context = 128;     ///< the most tokens of a sequence
  std::int64_t vocabulary = 256;  ///< tokens are 0 to vocabulary - 1
  double dropout = 0.0;  ///< of embeddings, of attention's weights and of what is added to x
  autograd::Precision precision = autograd::Precision::full;
};

/// x + attention(norm(x)), then that + MLP(norm(that)): norms come first ("pre-norm").
class GPTBlock final : public Module {
 public:
  explicit GPTBlock(const GPTOptions& options);

  Variable forward(const Variable& x) override;
  Variable forward_next(const Variable& x, KeysAndValues& before);

 private:
  struct MLP final : Module {
    explicit MLP(const GPTOptions& options);
    Variable forward(const Variable& x) override;
    Linear c_fc, c_proj;
  };
  LayerNorm ln_1_, ln_2_;
  CausalSelfAttention attn_;
  MLP mlp_;
  Dropout dropout_;
};

}  // namespace brigade::nn
