#pragma once

#include "autograd/engine.h"

namespace brigade::autograd {

/// Where the next contribution to a leaf's gradient goes: into its values where backward updates
/// them; into `staging` when hooks want to see it first; else straight into grad, allocating it on
/// first use: beta = 0 for the first write after zero_grad, GradState::carry for the first of a
/// later backward, then 1.
Engine::Destination leaf_destination(GradState& leaf);

/// Whether the next contribution to the gradient of `leaf` changes its values instead
/// (Variable::update_in_backward). Whatever reads them must have been enqueued before.
bool updates_values(const GradState& leaf);

/// The leaf has received its last contribution: run hooks and tell the listeners now. They are not
/// queued behind nodes still to run: with a depth-first order that made weights of a 40-layer MLP
/// up to 78 kernels late, and the overlap of communication silently vanished.
void leaf_finished(GradState& leaf);

/// Whether hooks want to see the gradient of `state`.
bool hooked(const GradState& state);

/// Applies the tensor hooks of `state` to `grad`, which they may replace.
void apply_hooks(const GradState& state, Tensor& grad);

}  // namespace brigade::autograd
