#pragma once

#include <vector>

#include "autograd/node.h"
#include "autograd/variable.h"

namespace brigade::autograd {

/// Adds d(grad_scale * root)/d(leaf) to the gradient of every leaf that `root` depends on. root
/// must have one element. grad_scale is 1 / K if the objective is the mean of K accumulated losses.
///
/// Runs on the calling thread and only enqueues on the compute stream. Backwards that share a leaf
/// must come one after the other. Errors: root is not a scalar or requires no gradient; the graph
/// was freed by an earlier backward; a function did not write a gradient it owes. After an error
/// the gradients are unspecified. A later backward may run, unless its graph contains a node that
/// was freed, or a listener refuses it, as GradAverager does if all-reduces were in flight.
void backward(const Variable& root, double grad_scale = 1.0);

/// One backward pass. backward() makes one; GradWriter (node.h) reports to it.
class Engine {
 public:
  void run(GradState& root, double grad_scale);

  /// A contribution to the gradient of `state` has been written (enqueued).
  void written(GradState& state);

 private:
  void discover(GradState& root);
  void tell_listeners(void (GradListener::*event)()) const;
  void run_node(GradState& output);
  void reset() noexcept;

  std::vector<GradState*> graph_;         // everything this pass reaches
  std::vector<GradState*> ready_;         // heap: complete gradients whose producers may run
  std::vector<GradListener*> listeners_;  // each once, in order of discovery
};

}  // namespace brigade::autograd
