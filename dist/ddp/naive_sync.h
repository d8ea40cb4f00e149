#pragma once

#include "dist/ddp/grad_sync.h"

namespace brigade::dist {

/// Compute, then communicate: when backward has fully finished on the device, one blocking
/// all-reduce per parameter, one after the other. The device idles meanwhile. Correct, simple, and
/// what everything else is compared with.
class NaiveSync final : public GradSync {
 public:
  explicit NaiveSync(SyncContext context)
      : context_(context), arrived_(context.parameters.size(), false) {}

  /// Only notes the arrival, for the check that no gradient is missing.
  void on_grad_ready(std::size_t index) override { arrived_.at(index) = true; }
  void on_backward_end() override;
  void on_backward_abort() noexcept override { arrived_.assign(arrived_.size(), false); }

 private:
  SyncContext context_;
  std::vector<bool> arrived_;
};

}  // namespace brigade::dist
