#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/hooks.h"
#include "core/tensor.h"

namespace brigade::autograd {

class Node;

/// The gradient side of a Variable, and the vertex of the graph that backward walks. It does not
/// hold the data: an activation that no node saved is freed as soon as forward is done with it.
struct GradState {
  struct Hook {
    std::size_t id;
    TensorHook call;
  };
  struct Listener {
    std::size_t id;
    GradListener* listener;
    std::size_t index;
  };

  std::string name;                ///< a parameter's name, for messages; empty for the rest
  std::shared_ptr<Node> producer;  ///< the node that computed the variable; null for a leaf
  Shape shape;
  DType dtype = DType::f32;
  Device device;

  /// Leaf: the gradient the optimizer reads, kept across steps (possibly a slice of a bucket).
  /// Otherwise: the sum of the contributions so far, alive only during backward.
  Tensor grad;
  bool filled = false;  ///< `grad` holds a value: the next contribution adds (beta = 1) instead of
                        ///< overwriting
  double leaf_scale =
      1.0;  ///< factor on every contribution to a leaf: 1 / ranks, folded into the dW GEMM
  double carry =
      1.0;  ///< leaf: factor on the value present when this backward's first contribution arrives
  bool synchronized =
      true;  ///< false after a backward inside no_sync(): the optimizer refuses such a gradient
  Tensor staging;  ///< leaf with tensor hooks: this backward's sum, before the hooks have seen it

  std::size_t pending = 0;  ///< contributions still to come in this backward
  bool reached = false;     ///< this backward's graph contains it
  std::vector<Hook> hooks;
  std::vector<Listener> listeners;
  std::size_t next_hook_id = 1;

  bool is_leaf() const { return producer == nullptr; }
};

/// A Tensor with a gradient and a history. Copies are handles of one variable, so the module, the
/// optimizer and the dist layer see the same parameter.
class Variable {
 public:
  Variable() = default;
  explicit Variable(Tensor data, bool requires_grad = false, std::string name = {});

  bool defined() const { return state_ != nullptr; }
  const Tensor& data() const { return state_->data; }
  const Shape& shape() const { return state_->data.shape(); }
  Device device() const { return state_->data.device(); }
  bool requires_grad() const { return state_ && state_->grad_state != nullptr; }
  bool is_leaf() const { return !requires_grad() || grad_state()->is_leaf(); }
  const std::string& name() const;
  void set_name(std::string name) const;

  /// The gradient; undefined until something was written since zero_grad().
  Tensor grad() const;

  /// Forgets the gradient's value but keeps its memory: the next contribution overwrites it. No
  /// fill.
  void zero_grad() const;

  /// Moves the variable to other memory of the same shape (a slice of a flat buffer); the values
  /// are copied.
  void move_data_to(const Tensor& place) const;
  /// From now on the gradient is written to `place`. A present value is copied.
  void move_grad_to(const Tensor& place) const;

  /// Watches or modifies the gradient of this variable. A leaf with hooks gets its contributions
  /// through a temporary, because the hook is to see this backward's gradient alone (as in
  /// PyTorch), unscaled and not yet accumulated.
  HookHandle add_hook(TensorHook hook) const;

  /// Tells `listener` about this leaf as number `index`. The listener must outlive the handle.
  HookHandle attach_listener(GradListener& listener, std::size_t index) const;

  const std::shared_ptr<GradState>& grad_state() const { return state_->grad_state; }
  friend Variable make_output(Tensor data, std::shared_ptr<Node> producer);

 private:
  struct State {
    Tensor data;
    std::shared_ptr<GradState> grad_state;  // null: requires no gradient
    std::string name;
  };
  std::shared_ptr<State> state_;
};

}  // namespace brigade::autograd
