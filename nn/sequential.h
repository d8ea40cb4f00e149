#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <vector>

#include "nn/module.h"

namespace brigade::nn {

/// Modules applied one after the other. Parameters are named by position, "0.weight", as in
/// torch.nn.Sequential. A ReLU or GELU behind a Linear is computed by the Linear
/// (forward_activated).
///
///   nn::Sequential model(nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 10));
class Sequential final : public Module {
 public:
  /// Of copies of `modules`, which share the parameters of the originals. A single Sequential is
  /// copied instead of nested; append() nests it.
  template <std::derived_from<Module>... Modules>
  explicit Sequential(const Modules&... modules) {
    (append(modules), ...);
  }

  /// Also to the copies of this Sequential.
  template <std::derived_from<Module> M>
  void append(const M& module) {
    append(std::make_unique<M>(module));
  }
  void append(std::unique_ptr<Module> module);

  Variable forward(const Variable& x) override;
  std::string description() const override;

 private:
  using Layers = std::vector<std::unique_ptr<Module>>;
  std::shared_ptr<Layers> layers_ = std::make_shared<Layers>();
};

}  // namespace brigade::nn
