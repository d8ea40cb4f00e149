#pragma once

namespace brigade::autograd {

/// Whether functions record nodes on this thread. On at the start.
bool grad_enabled();

/// Records nothing while it lives: evaluation, parameter updates. Nestable.
class NoGradGuard {
 public:
  NoGradGuard();
  ~NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  bool previous_;
};

}  // namespace brigade::autograd
