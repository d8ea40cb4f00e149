#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/variable.h"

namespace brigade::autograd {

class Engine;
struct Node;

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
  GradSlot slot_of(std::size_t i);  // these two: engine.cpp
  void report(std::size_t i);

  Engine& engine_;
  Node& node_;
  std::size_t written_ = 0;
};

/// Given dy, the gradient of the output, writes the gradients of all wanted inputs, each exactly
/// once. Owns the tensors it needs, as the captures of a lambda. May overwrite dy if no other
/// tensor shares its memory (Tensor::holds_alone).
using BackwardFunction = std::function<void(const Tensor& dy, GradWriter& grads)>;

/// One recorded operation with one output.
struct Node {
  Node(const char* name, BackwardFunction backward);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// " 4.weight", the first parameter among the inputs: tells one linear node from another in a
  /// time line. Empty if there is none.
  std::string parameter() const;

  const char* name;           ///< a literal
  BackwardFunction backward;  ///< empty once it has run: its tensors are freed then
  /// Null where an input requires no gradient.
  std::vector<std::shared_ptr<GradState>> inputs;
  std::uint64_t sequence;  ///< creation order on this thread: backward runs latest first
};

/// A variable computed by `producer`; a plain one when producer is null.
Variable make_output(Tensor data, std::shared_ptr<Node> producer);

/// Ends a function's forward: wraps `output` and, when gradients are on and some input wants one,
/// records a Node. An undefined Variable among the inputs counts as a constant.
Variable record(const char* name, Tensor output, const std::vector<Variable>& inputs,
                BackwardFunction backward);

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
