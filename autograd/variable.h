#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/grad_state.h"
#include "core/io/named_tensors.h"
#include "core/tensor.h"

namespace brigade::autograd {

/// What a node saves of an input for its backward: the values, or a function that computes them
/// again (activation recomputation, arXiv:1604.06174, section 4.4).
struct SavedTensor {
  Tensor values;                      ///< undefined with `recompute`
  std::function<Tensor()> recompute;  ///< or null
  Tensor operator()() const { return recompute ? recompute() : values; }
};

/// A Tensor with a gradient and a history. Copies are handles of one variable, so the module, the
/// optimizer and the dist layer see the same parameter.
class Variable {
 public:
  Variable() = default;
  explicit Variable(Tensor data, bool requires_grad = false, std::string name = {});

  /// An undefined one has no value: what asks it for more is an Error.
  bool defined() const { return state_ != nullptr; }
  /// The values. If another stream still writes them (set_pending_write), this thread's compute
  /// stream waits for it first.
  const Tensor& data() const {
    wait_for_pending_write();
    return state_->data;
  }
  const Shape& shape() const { return state().data.shape(); }
  Device device() const { return state().data.device(); }
  /// The value of a variable with one element, on the host. Waits for the device.
  float item() const { return static_cast<float>(data().item()); }
  /// The same for all handles of one variable, different for two variables.
  const void* identity() const { return state_.get(); }
  bool requires_grad() const {
    return state_ && state_->grad_state != nullptr && !state_->grad_state->frozen();
  }
  bool is_leaf() const { return !requires_grad() || grad_state()->is_leaf(); }
  const std::string& name() const { return state().name; }
  void set_name(std::string name) const;

  /// Freezes a leaf (false) or lets it train (again). Functions called from now on record a frozen
  /// one as a constant; its gradient and listeners stay for later. Freeze before
  /// dist::DataParallel is made: a change afterwards is an error of the next backward. Error if
  /// this is not a leaf.
  void set_requires_grad(bool required) const;

  /// The gradient, after the same wait as data(). Undefined until one was written since
  /// zero_grad().
  Tensor grad() const;
  /// Adds d(grad_scale · this)/d(leaf) to the gradient of every leaf this depends on. This must
  /// have one element. grad_scale is 1 / K if the objective is the mean of K accumulated losses.
  ///
  /// Runs on the calling thread and only enqueues on the compute stream. Backwards that share a
  /// leaf must come one after the other. Errors: this is not a scalar or requires no gradient; the
  /// graph was freed by an earlier backward; a function did not write a gradient it owes. After an
  /// error the gradients are unspecified. A later backward may run, unless its graph contains a
  /// node that was freed, or a listener refuses it, as GradAverager does if all-reduces were in
  /// flight.
  void backward(double grad_scale = 1.0) const;
  /// Forgets the gradient's value but keeps its memory: the next contribution overwrites. No fill.
  void zero_grad() const;

  /// Another stream is writing the values, as an optimizer does that runs while the next forward
  /// begins. `wait` makes this thread's compute stream wait for that; the next data() or grad()
  /// calls it, once. Every reader asks one of them, so nothing reads too early, and what does not
  /// read the variable does not wait. Returns true if this replaces an earlier `wait` that nobody
  /// has called.
  bool set_pending_write(std::function<void()> wait) const {
    return std::exchange(state().pending_write, std::move(wait)) != nullptr;
  }
  void wait_for_pending_write() const {
    if (state().pending_write) {
      std::exchange(state_->pending_write, nullptr)();
    }
  }

  /// For nodes that can do without the values between forward and backward, as fused_linear() can.
  SavedTensor saved() const;
  bool recomputes() const { return state().recompute != nullptr; }
  /// saved() has `recompute` from now on, if this requires a gradient. It returns the same bits as
  /// data() in new memory, and owns the tensors it needs, but never this Variable. For functions
  /// that are fast compared with the product behind them.
  void set_recompute(std::function<Tensor()> recompute) const;

  /// The values in bf16, if the function that made them keeps those for its backward; else
  /// undefined. fused_linear() multiplies these, so data() must not be changed afterwards.
  const Tensor& rounded() const { return state().rounded; }
  void set_rounded(Tensor values) const { state().rounded = std::move(values); }

  /// Moves the values to other memory of the same shape (a slice of a flat buffer), by a copy.
  void move_data_to(const Tensor& place) const;
  /// From now on the gradient is written to `place`. A present value is copied.
  void move_grad_to(const Tensor& place) const;

  /// Moves values and gradient of a leaf to `device`; all handles see it there. Errors: this is not
  /// a leaf; a listener is attached (a DataParallel holds its memory), so move it before.
  void move_to(Device device) const;

  /// Tells `listener` about this leaf as number `index`. The listener must outlive the handle, and
  /// every backward that has begun.
  ListenerHandle attach_listener(GradListener& listener, std::size_t index) const;

  /// Also a frozen leaf's; null if the variable never required a gradient.
  const std::shared_ptr<GradState>& grad_state() const { return state().grad_state; }
  friend Variable make_output(Tensor data, std::shared_ptr<Node> producer);

 private:
  struct State {
    std::shared_ptr<GradState> grad_state;  // null: requires no gradient
    std::function<void()> pending_write;    // null: the values can be read at once
    std::function<Tensor()> recompute;      // null: nodes save `data`
    Tensor rounded;
    Tensor data;
    std::string name;
  };
  /// Error if this is undefined.
  State& state() const;

  std::shared_ptr<State> state_;
};

/// Those of `parameters` that train, each once, in order: without the frozen ones, and without the
/// second registration of a weight that two layers share.
std::vector<Variable> trainable(const std::vector<Variable>& parameters);

/// The data of all `variables`, under their names: what a file of weights has.
NamedTensors named_data(const std::vector<Variable>& variables);

/// The values of all `variables`, one after the other, on the host. They must be f32.
std::vector<float> values_of(const std::vector<Variable>& variables);

}  // namespace brigade::autograd
