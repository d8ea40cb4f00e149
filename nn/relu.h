#pragma once

#include "nn/module.h"

namespace brigade::nn {

/// y = max(x, 0); no parameters.
class ReLU final : public Module {
 public:
  Variable forward(const Variable& x) override;
  std::string description() const override { return "ReLU()"; }
};

}  // namespace brigade::nn
