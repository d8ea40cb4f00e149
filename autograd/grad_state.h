#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "autograd/hooks.h"
#include "core/kernel_args.h"
#include "core/tensor.h"

namespace brigade::autograd {

struct Node;

/// Where one contribution to a gradient is written:
///   place = scale.alpha * contribution + scale.beta * place
struct GradSlot {
  Tensor& place;
  Scale scale;
};

/// The gradient side of a Variable, and the vertex of the graph that backward walks. It does not
/// hold the values: an activation that no node saved is freed as soon as forward is done with it.
///
/// Backward writes the gradient; optim reads it; dist says by which factors it is written. With R
/// ranks and gradients g_r:
///
///   situation                     grad_scale  accumulate_scale  synchronized, gradient afterwards
///   no data parallelism           1           1                 yes  sum of all backwards
///   backward, nothing before      1/R         -                 yes  (Σ_r g_r) / R
///   ... after one in no_sync()    1/R         1                 yes  both averages added
///   ... after a reduced one       1/R         1/R               yes  the new average added
///   inside no_sync()              1/R         as above          no   g_r / R, differs per rank
class GradState {
 public:
  /// `producer`: the node that computed the variable; null for a leaf. Error if the values are
  /// neither f32 nor f64.
  GradState(const Tensor& values, std::shared_ptr<Node> producer);

  bool is_leaf() const { return producer_ == nullptr; }
  const std::shared_ptr<Node>& producer() const { return producer_; }
  const std::string& name() const { return name_; }
  /// Variable::set_requires_grad(false): functions no longer record it.
  bool frozen() const { return frozen_; }

  /// Whether the gradient has a value: one was written since zero_grad(), so the next contribution
  /// is added instead of overwriting.
  bool has_grad() const { return has_grad_; }
  /// The gradient's memory, kept from step to step; may be a slice of a bucket. Undefined before
  /// the first backward, and without meaning unless has_grad().
  const Tensor& grad() const { return grad_; }
  /// Allocates the memory if there is none.
  const Tensor& allocate_grad();
  /// Forgets the value and keeps the memory: the next contribution overwrites. No fill.
  void zero_grad();
  /// Copies `values` into the gradient, as if a backward had written them.
  void set_grad(const Tensor& values);
  /// The gradient becomes zeros that count as a value: a parameter that backward does not reach
  /// contributes this to a sum over ranks.
  void fill_with_zeros();
  /// From now on the gradient is written to `place`; a present value is copied.
  void move_grad_to(const Tensor& place);
  /// The gradient and its value, if any, are on `device` from now on.
  void move_to(Device device);
  /// Changes whenever the values or the gradient get other memory.
  std::size_t storage_version() const { return storage_version_; }

  /// @name How data parallelism steers a leaf; see the table above.
  /// @{
  void set_grad_scale(double factor) { grad_scale_ = factor; }
  /// For the first contribution of the coming backward to a gradient that has a value.
  void set_accumulate_scale(double factor) { accumulate_scale_ = factor; }
  double accumulate_scale() const { return accumulate_scale_; }
  /// Whether the gradient is the same on all ranks. An optimizer refuses one that is not.
  bool synchronized() const { return synchronized_; }
  void set_synchronized(bool synchronized) { synchronized_ = synchronized; }
  /// All ranks agree that no loss used the parameter since zero_grad(): the optimizer skips it.
  bool unused() const { return unused_; }
  void mark_unused();
  /// Whether the backward that is running reaches this variable.
  bool in_graph() const { return in_graph_; }
  bool has_listeners() const { return !listeners_.empty(); }
  /// @}

 private:
  friend class AccumulateGrad;
  friend class Engine;
  friend class ListenerHandle;
  friend class Variable;

  struct Listener {
    GradListener* listener;
    std::size_t index;
  };

  // What backward reads of every state comes first, so that it is one cache line.
  std::shared_ptr<Node> producer_;
  std::size_t pending_ = 0;  // contributions still to come in this backward
  bool in_graph_ = false;
  bool has_grad_ = false;
  bool frozen_ = false;
  bool unused_ = false;
  bool synchronized_ = true;
  double grad_scale_ = 1.0;
  double accumulate_scale_ = 1.0;

  Tensor grad_;  // not a leaf: the sum so far, alive only during backward
  std::vector<Listener> listeners_;
  std::size_t storage_version_ = 0;
  Shape shape_;
  DType dtype_;
  Device device_;
  std::string name_;  // a parameter's, for messages; empty for the rest
};

}  // namespace brigade::autograd
