#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "core/tensor.h"

namespace brigade::autograd {

struct GradState;

/// Told by the engine about the backward passes that reach the variables it is attached to
/// (attach_listener). All calls come on the thread of backward(). The dist layer hangs on these
/// calls; where gradients go and by which factor it says in the fields of GradState (variable.h).
class GradListener {
 public:
  virtual ~GradListener() = default;

  /// A backward has found at least one attached variable in its graph; no node has run yet.
  virtual void on_backward_begin() {}

  /// Variable `index` has received its last contribution of this backward: its gradient is final
  /// and lies in grad(). Called at once, before any other node runs.
  virtual void on_grad_ready(std::size_t index) = 0;

  /// A node has run. Parameters whose gradients are final by now are not read again in this
  /// backward: every node that uses them has computed its dx.
  virtual void on_node_end() {}

  /// All nodes have run.
  virtual void on_backward_end() {}

  /// The backward, or an update or replay with it, ended with an exception, which is rethrown after
  /// this. May come without a begin, when another listener's begin threw.
  virtual void on_backward_abort() noexcept {}

  /// Grows each time this listener begins to do something else in a backward than before: what was
  /// recorded of an earlier one (replay.h) is then forgotten. Never falls, as a Replay adds up
  /// those of all listeners.
  virtual std::size_t generation() const { return 0; }
};

/// Sees the gradient of a tensor and may replace it: returns the replacement, or an undefined
/// Tensor to leave it as it is. The replacement must have the same shape, dtype and device.
using TensorHook = std::function<Tensor(const Tensor& grad)>;

/// Keeps a hook or listener attached; detaches it when destroyed.
class [[nodiscard]] HookHandle {
 public:
  HookHandle() = default;
  HookHandle(std::weak_ptr<GradState> state, std::size_t id) : state_(std::move(state)), id_(id) {}
  HookHandle(HookHandle&& other) noexcept { *this = std::move(other); }
  HookHandle& operator=(HookHandle&& other) noexcept;
  ~HookHandle() { detach(); }

  void detach() noexcept;

 private:
  std::weak_ptr<GradState> state_;
  std::size_t id_ = 0;
};

}  // namespace brigade::autograd
