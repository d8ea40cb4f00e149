#pragma once

#include "autograd/functions/unary.h"
#include "nn/module.h"

namespace brigade::nn {

/// torch.nn.GELU(approximate="tanh"); no parameters.
class GELU final : public Module {
 public:
  Variable forward(const Variable& x) override { return autograd::gelu(x); }
  std::string description() const override { return "GELU()"; }
};

}  // namespace brigade::nn
