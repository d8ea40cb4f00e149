#include "dist/hooks/finite_check.h"

#include <cmath>

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

}  // namespace

void FiniteCheck::check(std::size_t parameter, std::string_view bucket) const {
  const autograd::Variable& variable = parameters_[parameter];
  if (!is_finite(variable.grad())) {
    throw Error(message_of("finite check: expected finite gradients, got NaN or inf in step ",
                           step_, ", bucket '", bucket, "', parameter '", variable.name(),
                           "': look at this rank's data; if the losses before grew, training has "
                           "diverged: lower --lr"));
  }
}

void FiniteCheck::watch_naive(const std::vector<autograd::Variable>& parameters) {
  parameters_ = parameters;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    handles_.push_back(parameters_[i].attach_listener(*this, i));
  }
}

/// In mode naive each parameter is a bucket of its own.
void FiniteCheck::on_grad_ready(std::size_t index) {
  check(index, parameters_[index].name());
}

void FiniteCheck::prepare(std::span<const autograd::Variable> parameters,
                          std::span<const Bucket> buckets, Communicator& comm) {
  parameters_.assign(parameters.begin(), parameters.end());
  members_ = plan_of(buckets);
  inner_->prepare(parameters, buckets, comm);
}

Work FiniteCheck::all_reduce(std::size_t bucket, const Tensor& grads, std::string_view label,
                             Communicator& comm) {
  if (!is_finite(grads)) {
    for (const std::size_t member : members_[bucket]) {
      check(member, label);
    }
  }
  return inner_->all_reduce(bucket, grads, label, comm);
}

}  // namespace brigade::dist
