#include "dist/ddp/unused_parameters.h"

#include <cstdint>

#include "core/ops.h"

namespace brigade::dist {

void contribute_without_backward(const autograd::Variable& parameter) {
  autograd::GradState& state = *parameter.grad_state();
  if (!state.has_grad()) {
    state.fill_with_zeros();
  } else if (state.synchronized()) {
    // What the GEMM's beta does in a backward that reaches it.
    Tensor grad = state.grad();
    ops::axpby(grad, {.alpha = state.accumulate_scale(), .beta = 0.0}, grad);
  }
}

std::vector<std::size_t> UnusedParameters::begin() {
  std::vector<float> numbers;
  for (const autograd::Variable& parameter : parameters_) {
    // A gradient that is not synchronised is one from inside no_sync(): zero_grad and every
    // synchronisation put the mark back.
    const autograd::GradState& state = *parameter.grad_state();
    numbers.push_back(state.in_graph() || !state.synchronized() ? 1.0F : 0.0F);
  }
  bitmap_ = Tensor::from(numbers, {static_cast<std::int64_t>(numbers.size())},
                         parameters_.front().device());
  work_ = comm_.all_reduce(bitmap_, "used parameters");

  std::vector<std::size_t> unreached;
  empty_.assign(parameters_.size(), false);
  before_.assign(parameters_.size(), Tensor());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const autograd::GradState& state = *parameters_[i].grad_state();
    if (state.in_graph()) {
      continue;
    }
    empty_[i] = !state.has_grad();
    if (state.has_grad() && state.synchronized()) {
      // R times 1/R of a number is not always that number.
      before_[i] = state.grad().clone();
    }
    contribute_without_backward(parameters_[i]);
    unreached.push_back(i);
  }
  return unreached;
}

void UnusedParameters::end() {
  comm_.wait(work_);
  const std::vector<float> ranks_that_use = bitmap_.to_vector<float>();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (ranks_that_use[i] > 0.0F) {
      continue;
    }
    autograd::GradState& state = *parameters_[i].grad_state();
    if (before_[i].defined()) {
      state.set_grad(before_[i]);
    } else if (empty_[i]) {
      state.mark_unused();
    }
  }
  before_.clear();
}

}  // namespace brigade::dist
