#pragma once

#include <memory>
#include <vector>

#include "nn/module.h"

namespace brigade::nn {

/// Modules applied one after the other. Parameters are named by position, "0.weight", as in
/// torch.nn.Sequential. A ReLU behind a Linear is computed by the Linear (forward_relu).
class Sequential final : public Module {
 public:
  Sequential() = default;
  explicit Sequential(std::vector<std::unique_ptr<Module>> modules)
      : modules_(std::move(modules)) {}

  void append(std::unique_ptr<Module> module) { modules_.push_back(std::move(module)); }
  Variable forward(const Variable& x) override;
  void collect_parameters(const std::string& prefix,
                          std::vector<Variable>& parameters) const override;
  std::string description() const override;

 private:
  std::vector<std::unique_ptr<Module>> modules_;
};

}  // namespace brigade::nn
