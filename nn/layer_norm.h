#pragma once

#include <cstdint>

#include "autograd/functions/layer_norm.h"
#include "nn/module.h"

namespace brigade::nn {

/// Normalizes the last dimension (autograd/functions/layer_norm.h).   weight, bias: [D]
///
/// Starts as x̂: weight 1, bias 0.
class LayerNorm final : public Module {
 public:
  explicit LayerNorm(std::int64_t width);

  Variable forward(const Variable& x) override { return autograd::layer_norm(x, weight_, bias_); }
  std::string description() const override;

 private:
  Variable weight_;
  Variable bias_;
};

}  // namespace brigade::nn
