#include "dist/ddp/unused_parameters.h"

#include <algorithm>
#include <string>

#include "core/error.h"
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

UnusedParameters::UnusedParameters(const std::vector<autograd::Variable>& parameters,
                                   Communicator& comm)
    : parameters_(parameters), comm_(comm) {}

bool UnusedParameters::used(std::size_t index) const {
  const autograd::GradState& state = *parameters_[index].grad_state();
  // A gradient that is not synchronised is one from inside no_sync(): zero_grad and every
  // synchronisation put the mark back.
  return state.in_graph() || !state.synchronized();
}

std::vector<std::size_t> UnusedParameters::begin() {
  exchange();
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

void UnusedParameters::exchange() {
  std::vector<float> numbers;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    numbers.push_back(used(i) ? 1.0F : 0.0F);
  }
  bitmap_ = Tensor::from(numbers, {static_cast<std::int64_t>(numbers.size())},
                         parameters_.front().device());
  work_ = comm_.all_reduce(bitmap_, "used parameters");
}

void UnusedParameters::end() {
  const std::vector<bool> used_somewhere = read_exchange();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (used_somewhere[i]) {
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

std::vector<bool> UnusedParameters::read_exchange() {
  comm_.wait(work_, bitmap_.device());
  std::vector<bool> used_somewhere;
  for (const float ranks : bitmap_.to_vector<float>()) {
    used_somewhere.push_back(ranks > 0.0F);
  }
  return used_somewhere;
}

void UnusedParameters::reset() noexcept {
  before_.clear();
}

}  // namespace brigade::dist
