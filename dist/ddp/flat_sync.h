#pragma once

#include "dist/ddp/reducer.h"

namespace brigade::dist {

/// A Reducer that is told of the gradients after backward: what bucketing alone buys. No overlap.
/// It keeps count itself, so that nothing is sent where a gradient is missing.
class FlatSync final : public GradSync {
 public:
  explicit FlatSync(SyncContext context)
      : context_(context), reducer_(context), arrived_(context.parameters.size(), false) {}

  void on_grad_ready(std::size_t index) override { arrived_.at(index) = true; }
  void on_backward_end() override;
  void reset() noexcept override;

 private:
  SyncContext context_;
  Reducer reducer_;
  std::vector<bool> arrived_;
};

}  // namespace brigade::dist
