#pragma once

#include "autograd/grad_state.h"

namespace brigade::autograd {

/// Chooses where a contribution to a gradient is written, and calls the listeners of a parameter
/// after its last one.
class AccumulateGrad {
 public:
  /// Where the next contribution to the gradient of `state` goes: straight into the gradient, which
  /// may be a slice of a bucket. beta = 0 for the first write after zero_grad(), accumulate_scale
  /// for the first of a later backward, then 1.
  static GradSlot next_slot(GradState& state);

  /// `leaf` has received its last contribution: calls its listeners now, not behind the nodes still
  /// to run. Queued with a depth-first order, the calls of a 40-layer MLP come up to 78 kernels
  /// late, and communication no longer overlaps with backward.
  static void finish(GradState& leaf);
};

}  // namespace brigade::autograd
