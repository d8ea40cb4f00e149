#include "autograd/accumulate_grad.h"

#include <algorithm>

namespace brigade::autograd {

// The first contribution overwrites (beta = 0), the others add: no fill, no add kernel. The factors
// of a value that is no leaf stay 1.
GradSlot AccumulateGrad::next_slot(GradState& state) {
  state.allocate_grad();
  const double beta = state.has_grad_ ? state.accumulate_scale_ : 0.0;
  state.has_grad_ = true;
  state.accumulate_scale_ = 1.0;  // the second contribution to a weight used twice just adds
  return {state.grad_, {.alpha = state.grad_scale_, .beta = beta}};
}

void AccumulateGrad::finish(GradState& leaf) {
  // By id, in ascending order: a listener may detach itself or others, and one attached now hears
  // of the next gradient.
  const std::size_t end = leaf.next_id_;
  for (std::size_t id = 0; id < end; ++id) {
    const auto next = std::ranges::lower_bound(leaf.listeners_, id, {}, &GradState::Listener::id);
    if (next == leaf.listeners_.end() || next->id >= end) {
      return;
    }
    id = next->id;
    next->listener->on_grad_ready(next->index);
  }
}

}  // namespace brigade::autograd
