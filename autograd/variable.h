#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/hooks.h"
#include "core/kernels.h"
#include "core/runtime/loan.h"
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
  struct Hooks {
    std::vector<Hook> list;
    Tensor staging;  ///< of a leaf: this backward's sum, before the hooks have seen it
  };
  struct Listener {
    std::size_t id;
    GradListener* listener;
    std::size_t index;
  };

  // What every backward asks of every state comes first: with the shared_ptr's counters it is one
  // cache line (core/runtime/recycle.h), and a model of 100,000 parameters does not fit into a cache.
  std::shared_ptr<Node> producer;  ///< the node that computed the variable; null for a leaf
  std::size_t pending = 0;         ///< contributions still to come in this backward
  bool reached = false;            ///< this backward's graph contains it
  /// `grad` holds a value: the next contribution adds to it (beta = 1) instead of overwriting it.
  bool filled = false;
  bool frozen = false;  ///< Variable::set_requires_grad(false): functions record it no more
  /// No rank's loss has used the parameter since zero_grad, and the ranks have agreed that this is
  /// right (DataParallelOptions::unused): without a gradient, the optimizer leaves it alone.
  bool unused = false;
  /// Backward has updated the values instead of writing a gradient (`in_place`).
  bool updated = false;
  /// `grad` lies before the ReLU that made the variable (GradWriter::take_mask).
  bool masked = false;

  /// @name How the dist layer steers a leaf. With R ranks and gradients g_r:
  ///
  ///   situation                   grad_scale   carry   synchronized, grad afterwards
  ///   no DataParallel             1            1       true    Σ of all backwards since zero_grad
  ///   backward, nothing before    1/R          -       true    (Σ_r g_r) / R
  ///   ... after a no_sync one     1/R          1       true    both backwards' averages added
  ///   ... after a reduced one     1/R          1/R     true    likewise: the sum over R ranks of
  ///                                                            average / R is the average
  ///   inside no_sync()            1/R          as above  false   g_r / R, different on every rank
  /// @{
  bool synchronized = true;  ///< the optimizer refuses a gradient that is not
  double grad_scale = 1.0;   ///< factor on every contribution: the alpha of the dW GEMM
  double carry = 1.0;        ///< factor on what is there before this backward: its first beta
  /// @}

  /// Where a leaf's gradient goes that is an update of its values at once; see
  /// Variable::update_in_backward.
  struct InPlace {
    Tensor values;
    Scale scale;
  };
  std::unique_ptr<InPlace> in_place;  ///< null: `grad` takes it
  std::size_t updates = 0;            ///< how often backward has changed the values
  bool updated_in_flight = false;     ///< by what follows backward at once: no step() then
  std::unique_ptr<Hooks> hooks;       ///< null until there was one
  /// Leaf: the gradient the optimizer reads, kept across steps (possibly a slice of a bucket).
  /// Otherwise: the sum of the contributions so far, alive only during backward.
  Tensor grad;
  Loan loan;  ///< of the memory of `grad`, while that is not filled: a layer's output (linear.h)
  std::vector<Listener> listeners;
  Shape shape;
  DType dtype = DType::f32;
  Device device;

  std::string name;  ///< a parameter's name, for messages; empty for the rest
  std::size_t next_hook_id = 1;
  std::size_t moves = 0;  ///< how often the variable or its gradient got other memory

  bool is_leaf() const { return producer == nullptr; }
};

/// A Tensor with a gradient and a history. Copies are handles of one variable, so the module, the
/// optimizer and the dist layer see the same parameter.
class Variable {
 public:
  Variable() = default;
  explicit Variable(Tensor data, bool requires_grad = false, std::string name = {});

  bool defined() const { return state_ != nullptr; }
  /// The values. If something still writes to them (set_pending_write), this thread's compute
  /// stream waits for it first.
  const Tensor& data() const {
    wait_until_readable();
    return state_->data;
  }
  void wait_until_readable() const {
    if (state_->before_read) {
      std::exchange(state_->before_read, nullptr)();
    }
  }
  const Shape& shape() const { return state_->data.shape(); }
  Device device() const { return state_->data.device(); }
  /// The value of a variable with one element, on the host. Waits for the device.
  float item() const { return static_cast<float>(data().item()); }
  /// The same for all handles of one variable, different for two variables.
  const void* identity() const { return state_.get(); }
  bool requires_grad() const {
    return state_ && state_->grad_state != nullptr && !state_->grad_state->frozen;
  }
  bool is_leaf() const { return !requires_grad() || grad_state()->is_leaf(); }
  const std::string& name() const;
  void set_name(std::string name) const;

  /// Freezes a leaf (false) or lets it train (again). Functions called from now on record a frozen
  /// one as a constant; its gradient, hooks and listeners stay for later. Do it before
  /// dist::DataParallel is made: a change afterwards is an error of the next backward. Error for
  /// what is no leaf.
  void set_requires_grad(bool required) const;

  /// The gradient, after the same wait as data(); undefined until something was written since
  /// zero_grad().
  Tensor grad() const;

  /// Adds d(grad_scale · this)/d(leaf) to the gradient of every leaf this depends on; see
  /// autograd::backward (engine.h). This must have one element.
  void backward(double grad_scale = 1.0) const;

  /// Forgets the gradient's value but keeps its memory: the next contribution overwrites it, and
  /// the output of a layer before that (GradState::loan), so who wants to keep what grad() gave
  /// must clone it. No fill.
  void zero_grad() const;

  /// The values are being written by another stream, as an optimizer does that runs while the next
  /// forward begins. `wait` makes this thread's compute stream wait for that; the next data() or
  /// grad() calls it, once. Every reader asks one of them, so nothing that reads the variable can
  /// come too early, and what does not read it does not wait. Returns whether an earlier `wait` has
  /// not been called and is forgotten.
  bool set_pending_write(std::function<void()> wait) const {
    return std::exchange(state_->before_read, std::move(wait)) != nullptr;
  }

  /// Moves the variable to other memory of the same shape (a slice of a flat buffer); the values
  /// are copied.
  void move_data_to(const Tensor& place) const;
  /// From now on the gradient is written to `place`. A present value is copied.
  void move_grad_to(const Tensor& place) const;

  /// Moves values and gradient of a leaf to `device`; all handles see it there. Errors: this is no
  /// leaf; a listener is attached (a DataParallel holds its memory), so move it before.
  void move_to(Device device) const;

  /// From now on a backward in which this leaf is used once makes no gradient of it but computes
  ///
  ///   values = scale.alpha · gradient + scale.beta · values
  ///
  /// in the kernel that would have written the gradient: a step of plain SGD, and for a weight the
  /// GEMM's own alpha and beta (Optimizer::update_in_backward). Nothing is left for grad(). Where
  /// that is impossible, because two layers share the weight, because it has a hook or an older
  /// gradient, the gradient is written as ever. Errors of a backward: it is the second since
  /// zero_grad(), or goes through a layer that has read the values before they changed. Not seen:
  /// who reads them as a constant, through data() or while frozen.
  void update_in_backward(Scale scale) const;
  /// From now on backward writes a gradient again.
  void stop_updates_in_backward() const;

  /// Watches or modifies the gradient of this variable. A leaf with hooks gets its contributions
  /// through a temporary, because the hook is to see this backward's gradient alone (as in
  /// PyTorch), unscaled and not yet accumulated.
  HookHandle add_hook(TensorHook hook) const;

  /// Tells `listener` about this leaf as number `index`. The listener must outlive the handle, and
  /// every backward that has begun.
  HookHandle attach_listener(GradListener& listener, std::size_t index) const;

  /// Also a frozen leaf's; null for what never required a gradient.
  const std::shared_ptr<GradState>& grad_state() const { return state_->grad_state; }
  friend Variable make_output(Tensor data, std::shared_ptr<Node> producer);

 private:
  struct State {
    std::shared_ptr<GradState> grad_state;  // null: requires no gradient
    std::function<void()> before_read;      // null: the data can be read at once
    Tensor data;
    std::string name;
  };
  std::shared_ptr<State> state_;
};

/// Those of `parameters` that train, each once, in order: without the frozen ones, and without the
/// second registration of a weight that two layers share.
std::vector<Variable> trainable(const std::vector<Variable>& parameters);

/// The values of all `variables`, one after the other, on the host. They must be f32.
std::vector<float> values_of(const std::vector<Variable>& variables);

}  // namespace brigade::autograd
