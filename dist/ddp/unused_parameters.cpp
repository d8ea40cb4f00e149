#include "dist/ddp/unused_parameters.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/ops.h"

namespace brigade::dist {

std::string_view to_string(UnusedPolicy policy) {
  switch (policy) {
    case UnusedPolicy::refuse:
      return "refuse";
    case UnusedPolicy::find:
      return "find";
    case UnusedPolicy::find_once:
      break;
  }
  return "find_once";
}

void contribute_without_backward(const autograd::Variable& parameter) {
  autograd::GradState& state = *parameter.grad_state();
  if (!state.filled) {
    state.loan.call_in();
    state.grad.zero();
    state.filled = true;
  } else if (state.synchronized) {
    // What the GEMM's beta does in a backward that reaches it (GradState::carry).
    ops::axpby(state.grad, {.alpha = state.carry, .beta = 0.0}, state.grad);
  }
}

UnusedParameters::UnusedParameters(const std::vector<autograd::Variable>& parameters,
                                   Communicator& comm, UnusedPolicy policy)
    : parameters_(parameters), comm_(comm), policy_(policy) {}

bool UnusedParameters::used(std::size_t index) const {
  const autograd::GradState& state = *parameters_[index].grad_state();
  // A gradient that is not synchronised is one from inside no_sync(): zero_grad and every
  // synchronisation put the mark back.
  return state.reached || !state.synchronized;
}

std::vector<std::size_t> UnusedParameters::begin(Pass pass) {
  // A backward that is told of reaches at least one; a replay walks no graph.
  BRIGADE_CHECK(pass == Pass::mirrored ||
                    std::ranges::any_of(
                        parameters_, [](const auto& each) { return each.grad_state()->reached; }),
                "data parallel: a replay does not see which parameters are unused; use one or the "
                "other");
  const bool once = policy_ == UnusedPolicy::find_once;
  BRIGADE_CHECK(!once || known_ || pass == Pass::backward,
                "data parallel: static graph: the first synchronised backward shows which "
                "parameters are used, but rank ",
                comm_.rank(), " has no samples for it; use --find-unused");
  if (!once || !known_) {
    exchange();
  } else if (pass == Pass::backward) {
    check_same_use();
  }
  std::vector<std::size_t> unreached;
  empty_.assign(parameters_.size(), false);
  before_.assign(parameters_.size(), Tensor());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const autograd::GradState& state = *parameters_[i].grad_state();
    if (state.reached) {
      continue;
    }
    empty_[i] = !state.filled;
    if (state.filled && state.synchronized) {
      // R times 1/R of a number is not always that number.
      before_[i] = state.grad.clone();
    }
    contribute_without_backward(parameters_[i]);
    unreached.push_back(i);
  }
  return unreached;
}

void UnusedParameters::exchange() {
  known_ = false;
  here_.clear();
  std::vector<float> numbers;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    here_.push_back(used(i));
    numbers.push_back(here_[i] ? 1.0F : 0.0F);
  }
  bitmap_ = Tensor::from(numbers, {static_cast<std::int64_t>(numbers.size())},
                         parameters_.front().device());
  work_ = comm_.all_reduce(bitmap_, "used parameters");
}

void UnusedParameters::check_same_use() const {
  std::string changes;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (used(i) != here_[i]) {
      changes += concat(changes.empty() ? "'" : ", '", parameters_[i].name(),
                        here_[i] ? "' was used" : "' was not used");
    }
  }
  BRIGADE_CHECK(changes.empty(), "data parallel: static graph: on rank ", comm_.rank(),
                " the first synchronised backward used other parameters than this one: ", changes,
                " then; let every backward look (--find-unused)");
}

void UnusedParameters::end() {
  if (!known_) {
    read_exchange();
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (anywhere_[i]) {
      continue;
    }
    autograd::GradState& state = *parameters_[i].grad_state();
    if (before_[i].defined()) {
      state.grad.copy_from(before_[i]);
    } else if (empty_[i]) {
      state.filled = false;
      state.unused = true;
    }
  }
  before_.clear();
}

void UnusedParameters::read_exchange() {
  comm_.wait(work_, bitmap_.device());
  const std::vector<float> counts = bitmap_.to_vector<float>();
  anywhere_.resize(counts.size());
  std::transform(counts.begin(), counts.end(), anywhere_.begin(),
                 [](float ranks) { return ranks > 0.0F; });
  known_ = true;
}

void UnusedParameters::reset() noexcept {
  before_.clear();
}

}  // namespace brigade::dist
