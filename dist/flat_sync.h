#pragma once

#include "dist/grad_sync.h"

namespace brigade::dist {

/// After backward, one all-reduce per bucket: what bucketing alone buys. No overlap.
class FlatSync final : public GradSync {
 public:
  explicit FlatSync(SyncTargets targets)
      : targets_(targets), arrived_(targets.parameters.size(), false) {}

  void on_grad_ready(std::size_t index) override { arrived_.at(index) = true; }
  void on_backward_end() override;
  void reset() noexcept override;

 private:
  SyncTargets targets_;
  std::vector<bool> arrived_;
};

}  // namespace brigade::dist
