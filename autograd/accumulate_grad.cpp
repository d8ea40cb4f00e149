#include "autograd/accumulate_grad.h"

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
  for (const GradState::Listener& entry : leaf.listeners_) {
    entry.listener->on_grad_ready(entry.index);
  }
}

}  // namespace brigade::autograd
