#include "dist/hooks/finite_check.h"

#include <cmath>
#include <ranges>
#include <utility>

#include "core/error.h"
#include "core/ops.h"

namespace brigade::dist {

namespace {

/// A sum of squares in f64 is finite exactly if all numbers are: the largest f32 squared is 1e77.
bool is_finite(const Tensor& values) {
  Tensor squares = Tensor::zeros({}, DType::f64, values.device());
  ops::add_squares(values, squares);
  return std::isfinite(squares.item());
}

bool overlap(const Tensor& a, const Tensor& b) {
  return a.bytes() < b.bytes() + b.nbytes() && b.bytes() < a.bytes() + a.nbytes();
}

}  // namespace

FiniteCheck::FiniteCheck(Communicator& comm, std::vector<autograd::Variable> parameters)
    : comm_(comm), parameters_(std::move(parameters)) {
  comm_.add_wrap(
      [this](const Tensor& payload, std::string_view label, Communicator::Collective collective) {
        check(payload, label);
        return collective;
      });
}

void FiniteCheck::check(const Tensor& payload, std::string_view label) const {
  if (is_finite(payload)) {
    return;
  }
  // The last layer first: its gradients are computed before the others and spoil them.
  for (const autograd::Variable& parameter : std::views::reverse(parameters_)) {
    const Tensor grad = parameter.grad();
    if (grad.defined() && overlap(grad, payload) && !is_finite(grad)) {
      throw Error(message_of("finite check: expected finite gradients, got NaN or inf in step ",
                             step_, ", bucket '", label, "', parameter '", parameter.name(),
                             "': look at this rank's data; if the losses before grew, training has "
                             "diverged: lower --lr"));
    }
  }
}

}  // namespace brigade::dist
