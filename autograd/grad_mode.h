#pragma once

#include <utility>

namespace brigade::autograd {

/// While one lives, functions record no nodes on this thread: evaluation, parameter updates.
/// Nestable.
class NoGradGuard {
 public:
  NoGradGuard() : previous_(std::exchange(enabled, false)) {}
  ~NoGradGuard() { enabled = previous_; }
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  friend bool grad_enabled();
  inline static thread_local bool enabled = true;
  bool previous_;
};

/// Whether functions record nodes on this thread. On at the start.
inline bool grad_enabled() {
  return NoGradGuard::enabled;
}

}  // namespace brigade::autograd
