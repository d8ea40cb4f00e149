#include "autograd/accumulate_grad.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/ops.h"
#include "core/runtime/context.h"
#include "core/runtime/recording.h"

namespace brigade::autograd {
namespace {

/// The place in `grad` and the factors for one contribution to it:
///   grad = grad_scale · contribution + beta · grad
/// with beta = 0 right after zero_grad (no fill), `carry` for the first contribution of a backward
/// to an older value, 1 for further ones of the same backward.
Engine::Destination into_grad(GradState& leaf) {
  BRIGADE_CHECK(!leaf.updated, "backward: the gradient of '", leaf.name,
                "' has already been used to update it, in the backward before this one; with "
                "updates in backward call zero_grad() and forward between two backwards");
  if (!leaf.grad.defined()) {
    leaf.grad = Tensor::empty(leaf.shape, leaf.dtype, leaf.device);
  }
  // Used up by this backward's first contribution even if there was nothing to carry: the second
  // one of a weight used twice must find 1 here.
  const double carry = std::exchange(leaf.carry, 1.0);
  const double beta = leaf.filled ? carry : 0.0;
  if (!leaf.filled) {
    leaf.loan.call_in();
  }
  leaf.filled = true;
  return {leaf.grad, {.alpha = leaf.grad_scale, .beta = beta}};
}

}  // namespace

// A weight that is used once gets all of its gradient in one contribution: it can be the update.
// Of one that two nodes use, the second would read what the first has changed.
bool updates_values(const GradState& leaf) {
  return leaf.in_place && leaf.pending == 1 && !leaf.filled && !hooked(leaf);
}

Engine::Destination leaf_destination(GradState& leaf) {
  if (updates_values(leaf) && !leaf.updated) {
    leaf.loan.call_in();  // listeners may do with the gradient's memory as they always do
    leaf.updated = true;
    ++leaf.updates;
    const Scale& scale = leaf.in_place->scale;
    return {leaf.in_place->values, {.alpha = scale.alpha * leaf.grad_scale, .beta = scale.beta}};
  }
  // The usual case: the GEMM writes straight into the gradient, which may be a slice of a bucket.
  if (!hooked(leaf)) {
    return into_grad(leaf);
  }
  // A hook must see the sum of this backward alone, neither averaged nor added to older gradients,
  // so the contributions are collected beside `grad` first.
  Tensor& staging = leaf.hooks->staging;
  const bool first = !staging.defined();
  if (first) {
    staging = Tensor::empty(leaf.shape, leaf.dtype, leaf.device);
  }
  return {staging, {.alpha = 1.0, .beta = first ? 0.0 : 1.0}};
}

void leaf_finished(GradState& leaf) {
  if (leaf.hooks && leaf.hooks->staging.defined()) {
    Tensor seen = std::exchange(leaf.hooks->staging, Tensor());
    apply_hooks(leaf, seen);
    Engine::Destination destination = into_grad(leaf);
    ops::axpby(seen, destination.scale, destination.place);
  }
  Stream& stream = compute_stream(leaf.device);
  // A replay repeats kernels and not leaf_destination(), which has set these: listeners that a
  // CPU's replay calls read them.
  if (stream.recording()) {
    stream.run([&leaf, filled = leaf.filled, updated = leaf.updated] {
      leaf.filled = filled;
      leaf.updated = updated;
    });
  }
  // By their numbers, which grow: a listener may detach itself or others, and one that is attached
  // now hears of the next gradient.
  const std::size_t end = leaf.next_hook_id;
  std::size_t next_id = 0;
  for (;;) {
    const auto next = std::find_if(leaf.listeners.begin(), leaf.listeners.end(),
                                   [&](const auto& entry) { return entry.id >= next_id; });
    if (next == leaf.listeners.end() || next->id >= end) {
      return;
    }
    next_id = next->id + 1;
    repeatable(stream, [listener = next->listener, index = next->index] {
      listener->on_grad_ready(index);
    });
  }
}

bool hooked(const GradState& state) {
  return state.hooks && !state.hooks->list.empty();
}

void apply_hooks(const GradState& state, Tensor& grad) {
  if (!state.hooks) {
    return;
  }
  // A copy: a hook may attach or detach hooks.
  for (const GradState::Hook& hook : std::vector(state.hooks->list)) {
    const Tensor replacement = hook.call(grad);
    if (!replacement.defined()) {
      continue;
    }
    BRIGADE_CHECK(replacement.shape() == state.shape && replacement.dtype() == state.dtype &&
                      replacement.device() == state.device,
                  "hook of '", state.name, "': expected a gradient ", state.dtype, " ", state.shape,
                  " on ", state.device, ", got ", replacement.dtype(), " ", replacement.shape(),
                  " on ", replacement.device());
    grad = replacement;
  }
}

}  // namespace brigade::autograd
