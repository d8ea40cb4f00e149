#pragma once

#include <cstddef>
#include <memory>

namespace brigade::autograd {

class GradState;

/// Told by the engine about the backward passes that reach the variables it is attached to
/// (Variable::attach_listener). All calls come on the thread of backward(). The dist layer is built
/// on them.
class GradListener {
 public:
  virtual ~GradListener() = default;

  /// A backward has found at least one attached variable in its graph; no node has run yet.
  virtual void on_backward_begin() {}

  /// Variable `index` has received its last contribution of this backward: grad() is final. Called
  /// at once, before any other node runs. Must not attach or detach a listener of this variable.
  virtual void on_grad_ready(std::size_t index) = 0;

  /// A node has run. Every parameter whose gradient is final by now has been read for the last time
  /// in this backward: the nodes that use it have computed their dx. A use without a gradient, as
  /// of Variable(w.data()), does not count.
  virtual void on_node_end() {}

  /// All nodes have run.
  virtual void on_backward_end() {}

  /// The backward ended with an exception, which is rethrown after this. May come without
  /// on_backward_begin() if another listener's threw.
  virtual void on_backward_abort() noexcept {}
};

/// Keeps a listener attached; detaches it when destroyed.
class [[nodiscard]] ListenerHandle {
 public:
  ListenerHandle() = default;
  ListenerHandle(std::weak_ptr<GradState> state, GradListener& listener, std::size_t index)
      : state_(std::move(state)), listener_(&listener), index_(index) {}
  ListenerHandle(ListenerHandle&& other) noexcept = default;  // leaves other.state_ empty
  ListenerHandle& operator=(ListenerHandle other) noexcept;
  ~ListenerHandle();

 private:
  std::weak_ptr<GradState> state_;
  GradListener* listener_ = nullptr;
  std::size_t index_ = 0;
};

}  // namespace brigade::autograd
