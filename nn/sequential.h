#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/module.h"

namespace brigade::nn {

/// Modules applied one after the other. Parameters are named by position, "0.weight", as in
/// torch.nn.Sequential. A ReLU behind a Linear is computed by the Linear (forward_relu).
class Sequential final : public Module {
 public:
  Sequential() = default;
  explicit Sequential(std::vector<std::unique_ptr<Module>> modules);

  void append(std::unique_ptr<Module> module);
  Variable forward(const Variable& x) override;
  void collect_parameters(const std::string& prefix,
                          std::vector<Variable>& parameters) const override;
  std::string description() const override;

 private:
  std::vector<std::unique_ptr<Module>> modules_;
  std::vector<std::string> labels_;  // "0 Linear(512, 256)": what a time line calls the modules
};

}  // namespace brigade::nn
