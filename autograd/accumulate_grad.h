#pragma once

#include "autograd/grad_state.h"

namespace brigade::autograd {

/// The end of a gradient's way through the graph: a parameter takes its contributions and tells its
/// listeners when the last one is there.
class AccumulateGrad {
 public:
  /// Where the next contribution to the gradient of `leaf` goes: straight into the gradient, unless
  /// hooks are to see it first. beta = 0 for the first write after zero_grad(), accumulate_scale
  /// for the first of a later backward, then 1.
  static GradSlot next_slot(GradState& leaf);

  /// `leaf` has received its last contribution: runs hooks and tells the listeners now. They are
  /// not queued behind the nodes still to run. With a depth-first order that made the weights of a
  /// 40-layer MLP up to 78 kernels late, and the overlap of communication silently vanished.
  static void finish(GradState& leaf);

  /// Applies the tensor hooks of `state` to `grad`, which they may replace.
  static void apply_hooks(const GradState& state, Tensor& grad);

 private:
  static GradSlot slot_in_grad(GradState& leaf);
};

}  // namespace brigade::autograd
