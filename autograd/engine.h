#pragma once

#include <queue>
#include <vector>

#include "autograd/node.h"
#include "autograd/variable.h"

namespace brigade::autograd {

/// One backward pass. Variable::backward() makes one; GradWriter (node.h) reports to it.
class Engine {
 public:
  void run(GradState& root, double grad_scale);

  /// A contribution to the gradient of `state` has been written (enqueued).
  void written(GradState& state);

 private:
  /// The producer recorded last runs first. That is the reverse of forward, and the same order on
  /// every rank.
  struct RunsLater {
    bool operator()(const GradState* a, const GradState* b) const {
      return a->producer()->sequence < b->producer()->sequence;
    }
  };

  void discover(GradState& root);
  void tell_listeners(void (GradListener::*event)()) const;
  void run_node(GradState& output);
  void reset() noexcept;

  std::vector<GradState*> graph_;         // everything this pass reaches
  std::vector<GradListener*> listeners_;  // each once, in order of discovery
  // Complete gradients whose producers may run.
  std::priority_queue<GradState*, std::vector<GradState*>, RunsLater> ready_;
};

}  // namespace brigade::autograd
