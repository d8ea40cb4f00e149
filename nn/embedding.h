#pragma once

#include <cstdint>

#include "autograd/functions/embedding.h"
#include "nn/module.h"

namespace brigade::nn {

/// A row of `weight` for each index (autograd/functions/embedding.h).   weight: [V, D]
///
/// Starts as normal numbers of deviation 1, PyTorch's default.
class Embedding final : public Module {
 public:
  Embedding(std::int64_t vocabulary, std::int64_t width);

  /// indices: i64 [...]   result: [..., D]
  Variable forward(const Variable& indices) override {
    return autograd::embedding(indices.data(), weight_);
  }
  std::string description() const override;
  const Variable& weight() const { return weight_; }

 private:
  Variable weight_;
};

}  // namespace brigade::nn
