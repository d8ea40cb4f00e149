#pragma once

#include <cstddef>

#include "autograd/node.h"
#include "autograd/variable.h"

namespace brigade::autograd {

struct BackwardOptions {
  /// d(objective)/d(root). 1 / K when the objective is the mean of K accumulated losses.
  double seed = 1.0;
  /// Keep the saved tensors, so that backward can run through this graph once more.
  bool retain_graph = false;
};

/// Adds d(seed * root)/d(leaf) to the gradient of every leaf that `root` depends on. root must have
/// one element.
///
/// Runs on the calling thread and only enqueues on the compute stream. Backwards that share a leaf
/// must come one after the other. Errors: root is not a scalar or requires no gradient; the graph
/// was freed by an earlier backward; a function did not deliver a gradient it owes. After an error
/// gradients are unspecified, counters are reset, and the next backward starts clean (unless it
/// goes through a node of the failed one that was freed, or a listener refuses it, as a
/// DataParallel does that had all-reduces in flight).
void backward(const Variable& root, BackwardOptions options = {});

/// One backward pass; backward() makes one, Gradients (node.h) reports to it.
class Engine {
 public:
  void run(GradState& root, const BackwardOptions& options);

  /// The final place of the next contribution to `state`, and the factors that let it land there.
  struct Destination {
    Tensor& place;  ///< of `state`; stays until delivered()
    Scale scale;
  };
  Destination destination(GradState& state);
  void delivered(GradState& state);

 private:
  void discover(GradState& root);
  void tell_listeners(Stream& stream, void (GradListener::*event)()) const;
  void run_node(GradState& output, bool retain_graph);
  void reset() noexcept;

  RecyclingVector<GradState*> reached_;       // the graph of this pass
  RecyclingVector<GradState*> ready_;         // heap: complete gradients whose producers may run
  RecyclingVector<GradListener*> listeners_;  // each once, in order of discovery
};

}  // namespace brigade::autograd
