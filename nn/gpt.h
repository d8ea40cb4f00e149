#pragma once

#include <cstdint>
#include <vector>

#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/gpt_block.h"
#include "nn/layer_norm.h"
#include "nn/module.h"

namespace brigade::nn {

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
  /// The same for one more token, for generate.h; `before` has an entry per layer (empty_memory).
  ///   result: [V]
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
