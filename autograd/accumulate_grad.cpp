#include "autograd/accumulate_grad.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/ops.h"

namespace brigade::autograd {

GradSlot AccumulateGrad::next_slot(GradState& leaf) {
  // The usual case: the GEMM writes straight into the gradient, which may be a slice of a bucket.
  if (leaf.hooks_.empty()) {
    return slot_in_grad(leaf);
  }
  // A hook sees the sum of this backward alone, not averaged and not added to older gradients (as
  // in PyTorch). So the contributions are collected beside the gradient first.
  const bool first = !leaf.hook_input_.defined();
  if (first) {
    leaf.hook_input_ = Tensor::empty(leaf.shape_, leaf.dtype_, leaf.device_);
  }
  return {leaf.hook_input_, {.alpha = 1.0, .beta = first ? 0.0 : 1.0}};
}

GradSlot AccumulateGrad::slot_in_grad(GradState& leaf) {
  leaf.allocate_grad();
  // Reset by the first contribution even if there was nothing to accumulate on: the second
  // contribution to a weight used twice must find 1.
  const double accumulate = std::exchange(leaf.accumulate_scale_, 1.0);
  const double beta = std::exchange(leaf.has_grad_, true) ? accumulate : 0.0;
  return {leaf.grad_, {.alpha = leaf.grad_scale_, .beta = beta}};
}

void AccumulateGrad::finish(GradState& leaf) {
  if (leaf.hook_input_.defined()) {
    Tensor grad = std::exchange(leaf.hook_input_, Tensor());
    apply_hooks(leaf, grad);
    GradSlot slot = slot_in_grad(leaf);
    ops::axpby(grad, slot.scale, slot.place);
  }
  // By id, in ascending order: a listener may detach itself or others, and one attached now hears
  // of the next gradient.
  const std::size_t end = leaf.next_id_;
  for (std::size_t id = 0; id < end; ++id) {
    const auto next = std::ranges::find_if(
        leaf.listeners_, [id](const GradState::Listener& entry) { return entry.id >= id; });
    if (next == leaf.listeners_.end() || next->id >= end) {
      return;
    }
    id = next->id;
    next->listener->on_grad_ready(next->index);
  }
}

void AccumulateGrad::apply_hooks(const GradState& state, Tensor& grad) {
  if (state.hooks_.empty()) {
    return;
  }
  for (const GradState::Hook& hook : std::vector(state.hooks_)) {  // a hook may attach or detach
    const Tensor replacement = hook.call(grad);
    if (!replacement.defined()) {
      continue;
    }
    BRIGADE_CHECK(replacement.shape() == state.shape_ && replacement.dtype() == state.dtype_ &&
                      replacement.device() == state.device_,
                  "hook of '", state.name_, "': expected a gradient ", state.dtype_, " ",
                  state.shape_, " on ", state.device_, ", got ", replacement.dtype(), " ",
                  replacement.shape(), " on ", replacement.device());
    grad = replacement;
  }
}

}  // namespace brigade::autograd
