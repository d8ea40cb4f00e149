#pragma once

#include "autograd/functions/unary.h"
#include "nn/module.h"

namespace brigade::nn {

/// y = max(x, 0); no parameters.
class ReLU final : public Module {
 public:
  Variable forward(const Variable& x) override { return autograd::relu(x); }
  std::string description() const override { return "ReLU()"; }
};

}  // namespace brigade::nn
