#include "dist/hooks/finite_check.h"

#include <algorithm>
#include <cstddef>

#include "autograd/grad_state.h"
#include "core/error.h"
#include "core/ops.h"

namespace brigade::dist {

namespace {

/// What `payload` has of a gradient; undefined if that is nothing.
Tensor part_of(const Tensor& payload, const Tensor& grad) {
  const std::byte* begin = std::max(payload.bytes(), grad.bytes());
  const std::byte* end = std::min(payload.bytes() + payload.nbytes(), grad.bytes() + grad.nbytes());
  if (begin >= end) {
    return {};
  }
  const auto size = static_cast<std::int64_t>(size_of(payload.dtype()));
  return payload.flat_view((begin - payload.bytes()) / size, {(end - begin) / size});
}

}  // namespace

FiniteCheck::FiniteCheck(Communicator& comm, const std::vector<autograd::Variable>& parameters)
    : comm_(comm), parameters_(autograd::trainable(parameters)) {
  // In a bucket the last layer first: its gradients are computed before the others and spoil them.
  std::ranges::reverse(parameters_);
  comm_.add_wrap(
      [this](const Tensor& payload, std::string_view label, Communicator::Collective collective) {
        check(payload, label);
        return collective;
      });
}

void FiniteCheck::check(const Tensor& payload, std::string_view label) const {
  for (const autograd::Variable& parameter : parameters_) {
    // Not Variable::grad(): that would wait for updates in flight.
    const autograd::GradState& state = *parameter.grad_state();
    const Tensor part = state.has_grad() ? part_of(payload, state.grad()) : Tensor();
    if (part.defined() && !ops::all_finite(part)) {
      throw Error(
          fmt::format("finite check: expected finite gradients, got NaN or inf in step {}, bucket "
                      "'{}', parameter '{}': look at this rank's data; if the losses before grew, "
                      "training has diverged: lower --lr",
                      step_, label, parameter.name()));
    }
  }
}

}  // namespace brigade::dist
