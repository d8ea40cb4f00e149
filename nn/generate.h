#pragma once

#include <cstdint>
#include <vector>

#include "nn/gpt.h"

namespace brigade::nn {

struct GenerateOptions {
  std::int64_t count = 100;  ///< tokens to write
  double temperature = 1.0;  ///< logits are divided by it; 0: always the likeliest token
  std::int64_t top_k = 0;    ///< only the k likeliest tokens; 0: all
  std::uint64_t seed = 0;
};

/// Continues `prompt`, token by token, each drawn from the softmax of the logits; every layer keeps
/// the keys and values of the positions before ("KV cache"). When the context is full, its second
/// half is read again as the beginning. Returns the new tokens. Error: the prompt is empty.
std::vector<std::int64_t> generate(GPT& model, std::vector<std::int64_t> prompt,
                                   const GenerateOptions& options);

}  // namespace brigade::nn
