#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "autograd/grad_mode.h"
#include "autograd/variable.h"

namespace brigade::autograd {

class Engine;

/// Hands a node's backward the places for its gradients, one per input.
class GradWriter {
 public:
  GradWriter(Engine& engine, Node& node) : engine_(engine), node_(node) {}

  /// Whether input `i` needs a gradient at all.
  bool wanted(std::size_t i) const;

  /// Calls fn(place, scale), which must compute place = scale.alpha * gradient + scale.beta *
  /// place, and reports the gradient as written. `place` is the gradient's final memory (for a
  /// parameter its slice of a bucket), so there is no temporary and no add kernel. Skipped when not
  /// wanted. If this was the last contribution to a parameter, its listeners hear of it before
  /// write() returns. So write parameters first: the network waits for them.
  template <std::invocable<Tensor&, Scale> Fn>
  void write(std::size_t i, const Fn& fn) {
    if (wanted(i)) {
      const GradSlot slot = slot_of(i);
      fn(slot.place, slot.scale);
      report(i);
    }
  }

  /// How many gradients have been written.
  std::size_t written() const { return written_; }

 private:
  GradSlot slot_of(std::size_t i);
  void report(std::size_t i);

  Engine& engine_;
  Node& node_;
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
  /// once. May overwrite dy if no other tensor shares its memory (Tensor::holds_alone).
  virtual void backward(const Tensor& dy, GradWriter& grads) = 0;

  /// Drops the saved tensors; backward is impossible afterwards.
  virtual void release() = 0;

  /// Null where an input requires no gradient.
  std::vector<std::shared_ptr<GradState>> inputs;
  std::uint64_t sequence = 0;  ///< creation order on this thread: backward runs latest first
  bool released = false;
};

/// A variable computed by `producer`; a plain one when producer is null.
Variable make_output(Tensor data, std::shared_ptr<Node> producer);

/// Ends a function's forward: wraps `output` and, when gradients are on and some input wants one,
/// records a NodeT made from `saved`. An undefined Variable among the inputs counts as a constant.
template <std::derived_from<Node> NodeT, class... Saved>
Variable record(Tensor output, const std::vector<Variable>& inputs, Saved&&... saved) {
  const bool wanted = std::ranges::any_of(inputs, &Variable::requires_grad);
  if (!wanted || !grad_enabled()) {
    return make_output(std::move(output), nullptr);
  }
  auto node = std::make_shared<NodeT>(std::forward<Saved>(saved)...);
  node->inputs.reserve(inputs.size());
  for (const Variable& input : inputs) {
    node->inputs.push_back(input.requires_grad() ? input.grad_state() : nullptr);
  }
  return make_output(std::move(output), std::move(node));
}

/// A node whose backward is a callable. The callable owns the saved tensors, for example as the
/// captures of a lambda, so releasing them is to destroy it.
template <std::invocable<const Tensor&, GradWriter&> Backward>
class FunctionNode final : public Node {
 public:
  FunctionNode(const char* name, Backward backward) : name_(name), backward_(std::move(backward)) {}
  const char* name() const override { return name_; }
  void backward(const Tensor& dy, GradWriter& grads) override { (*backward_)(dy, grads); }
  void release() override { backward_.reset(); }

 private:
  const char* name_;
  std::optional<Backward> backward_;
};

/// The same with a FunctionNode. backward(dy, grads) is Node::backward. `name` must be a literal.
template <std::invocable<const Tensor&, GradWriter&> Backward>
Variable record(const char* name, Tensor output, const std::vector<Variable>& inputs,
                Backward backward) {
  return record<FunctionNode<Backward>>(std::move(output), inputs, name, std::move(backward));
}

/// The same for one input. backward(dy, dx, scale) computes dx = scale.alpha * gradient +
/// scale.beta * dx.
template <std::invocable<const Tensor&, Tensor&, Scale> Backward>
Variable record(const char* name, Tensor output, const Variable& x, Backward backward) {
  return record(name, std::move(output), std::vector{x},
                [backward = std::move(backward)](const Tensor& dy, GradWriter& grads) {
                  grads.write(0, [&](Tensor& dx, Scale scale) { backward(dy, dx, scale); });
                });
}

}  // namespace brigade::autograd
