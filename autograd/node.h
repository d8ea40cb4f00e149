#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "autograd/grad_mode.h"
#include "autograd/variable.h"
#include "core/kernels.h"
#include "core/runtime/recycle.h"

namespace brigade::autograd {

class Engine;

/// What tells which elements of the gradient of a ReLU's output y reach its input: y > 0.
struct ReluMask {
  Tensor y;
  Tensor bits;  ///< the same, one each (ops::empty_relu_mask)
};

/// Where a node's backward writes its gradients, one per input.
class GradWriter {
 public:
  GradWriter(Engine& engine, Node& node, bool dy_is_masked, bool graph_is_kept)
      : engine_(engine), node_(node), dy_is_masked_(dy_is_masked), graph_is_kept_(graph_is_kept) {}

  /// Whether input `i` wants a gradient at all.
  bool wanted(std::size_t i) const;

  /// Whether write(i) changes the values of input `i` (Variable::update_in_backward): what reads
  /// them must be enqueued before.
  bool updates(std::size_t i) const;

  /// Calls fn(dst, scale), which must compute dst = scale.alpha * gradient + scale.beta * dst, and
  /// reports the gradient as delivered. `dst` is the gradient's final place (for a parameter its
  /// slice of a bucket), hence no temporary and no add kernel. Skipped when not wanted. A parameter
  /// whose last contribution this was tells its listeners before write() returns: write parameters
  /// first, they are what the network waits for.
  template <std::invocable<Tensor&, Scale> Fn>
  void write(std::size_t i, const Fn& fn) {
    if (wanted(i)) {
      const Place place = place_of(i);
      fn(place.dst, place.scale);
      delivered(i);
    }
  }

  /// Input `i` is the output of a ReLU, and its gradient may be written as that of the ReLU's own
  /// input, masked. Who takes the mask must do so, in the coming write(i), which overwrites. Null
  /// where its maker masks it: on the CPU, and where others see the gradient or add to it.
  const ReluMask* take_mask(std::size_t i);
  /// Whether dy came masked, because the node that computed it took this one's mask.
  bool dy_is_masked() const { return dy_is_masked_; }

  /// Whether another backward may run through this graph: saved tensors must stay until release().
  bool graph_is_kept() const { return graph_is_kept_; }

  /// How many gradients have been written.
  std::size_t written() const { return written_; }

 private:
  struct Place {
    Tensor& dst;
    Scale scale;
  };
  Place place_of(std::size_t i);
  void delivered(std::size_t i);

  Engine& engine_;
  Node& node_;
  bool dy_is_masked_;
  bool graph_is_kept_;
  std::size_t written_ = 0;
};

/// One recorded operation with one output. Subclasses save what backward needs.
class Node {
 public:
  Node();
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  virtual const char* name() const = 0;

  /// Given dy, the gradient of the output, writes the gradients of all wanted inputs, each exactly
  /// once. May overwrite dy if it holds it alone (Tensor::holds_alone).
  virtual void backward(const Tensor& dy, GradWriter& grads) = 0;

  /// Null unless the output is a ReLU's and backward asks dy_is_masked().
  virtual const ReluMask* relu_mask() const { return nullptr; }

  /// Drops the saved tensors; backward is impossible afterwards.
  virtual void release() = 0;

  /// Null where an input requires no gradient.
  RecyclingVector<std::shared_ptr<GradState>> inputs;
  std::uint64_t sequence = 0;  ///< creation order on this thread: backward runs latest first
  bool released = false;
};

/// A variable computed by `producer`; a plain one when producer is null.
Variable make_output(Tensor data, std::shared_ptr<Node> producer);

/// Ends a function's forward: wraps `output` and, when gradients are on and some input wants one,
/// records a NodeT made from `saved`.
template <std::derived_from<Node> NodeT, class... Saved>
Variable record(Tensor output, std::span<const Variable> inputs, Saved&&... saved) {
  bool wanted = false;
  for (const Variable& input : inputs) {
    wanted = wanted || input.requires_grad();
  }
  if (!wanted || !grad_enabled()) {
    return make_output(std::move(output), nullptr);
  }
  auto node = make_recycled<NodeT>(std::forward<Saved>(saved)...);
  node->inputs.reserve(inputs.size());
  for (const Variable& input : inputs) {
    node->inputs.push_back(input.requires_grad() ? input.grad_state() : nullptr);
  }
  return make_output(std::move(output), std::move(node));
}
template <std::derived_from<Node> NodeT, class... Saved>
Variable record(Tensor output, std::initializer_list<Variable> inputs, Saved&&... saved) {
  return record<NodeT>(std::move(output), std::span(inputs.begin(), inputs.size()),
                       std::forward<Saved>(saved)...);
}

}  // namespace brigade::autograd
