#pragma once

#include <cstdint>
#include <vector>

#include "nn/attention.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/layer_norm.h"
#include "nn/linear.h"
#include "nn/module.h"

namespace brigade::nn {

struct GPTOptions {
  std::int64_t layers = 4, heads = 4, width = 128;
  std::int64_t context = 128;     ///< the most tokens of a sequence
  std::int64_t vocabulary = 256;  ///< tokens are 0 to vocabulary - 1
  double dropout = 0.0;  ///< of embeddings and of what is added to x, not of attention's weights
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

/// GPT-2 (Radford et al. 2019): a decoder-only transformer. Parameters have the names of Hugging
/// Face's GPT2LMHeadModel, "transformer.h.0.attn.c_attn.weight", and start as GPT-2's: normal with
/// deviation 0.02, divided by √(2 layers) where a result is added to x; biases 0.
///
/// Two uses of one parameter: wte.weight turns tokens into rows, and in the end rows into logits
/// ("weight tying", arXiv:1608.05859). So its gradient is the last to be complete.
class GPT final : public Module {
 public:
  explicit GPT(const GPTOptions& options);

  /// Logits of the token after each position.
  ///   tokens: i64 [N, T], T <= context   result: [N, T, V]
  Variable forward(const Variable& tokens) override;
  /// The same for one more token; `before` has an entry per layer (empty_memory).   result: [V]
  Tensor forward_next(std::int64_t token, std::vector<KeysAndValues>& before);
  std::vector<KeysAndValues> empty_memory() const;

  const GPTOptions& options() const { return options_; }
  std::string description() const override;

 private:
  Variable logits(const Variable& x);

  GPTOptions options_;
  Embedding wte_, wpe_;  // of tokens, of positions
  Dropout dropout_;
  std::vector<GPTBlock> blocks_;
  LayerNorm ln_f_;
};

}  // namespace brigade::nn
