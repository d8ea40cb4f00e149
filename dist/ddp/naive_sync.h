#pragma once

#include "dist/ddp/grad_sync.h"

namespace brigade::dist {

/// Compute, then communicate: when backward has fully finished on the device, one blocking
/// all-reduce per parameter, one after the other. The device idles meanwhile. Correct, simple, and
/// what everything else is compared with.
class NaiveSync final : public GradSync {
 public:
  explicit NaiveSync(SyncContext context) : context_(context) {}

  void on_grad_ready(std::size_t /*index*/) override {}
  void on_backward_end() override;
  void on_backward_abort() noexcept override {}

 private:
  SyncContext context_;
};

}  // namespace brigade::dist
