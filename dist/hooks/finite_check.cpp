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

Error not_finite(std::int64_t step, const std::string& bucket,
                 const autograd::Variable& parameter) {
  return Error(message_of("finite check: expected finite gradients, got NaN or inf in step ", step,
                          ", bucket '", bucket, "', parameter '", parameter.name(),
                          "': look at this rank's data; if the losses before grew, training has "
                          "diverged: lower --lr"));
}

}  // namespace

/// The parameters of mode naive, each a bucket of its own.
class FiniteCheck::Watch final : public autograd::GradListener {
 public:
  Watch(const FiniteCheck& check, const std::vector<autograd::Variable>& parameters)
      : check_(check), parameters_(parameters) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      handles_.push_back(parameters[i].attach_listener(*this, i));
    }
  }

  void on_grad_ready(std::size_t index) override {
    const autograd::Variable& parameter = parameters_[index];
    if (!is_finite(parameter.grad())) {
      throw not_finite(check_.step_, parameter.name(), parameter);
    }
  }

 private:
  const FiniteCheck& check_;
  const std::vector<autograd::Variable>& parameters_;
  std::vector<autograd::HookHandle> handles_;
};

FiniteCheck::FiniteCheck(std::shared_ptr<CommHook> inner)
    : inner_(std::move(inner)), use_(*inner_) {}

FiniteCheck::~FiniteCheck() = default;

void FiniteCheck::watch_naive(const std::vector<autograd::Variable>& parameters) {
  watch_ = std::make_unique<Watch>(*this, parameters);
}

void FiniteCheck::prepare(std::span<const autograd::Variable> parameters,
                          std::span<const Bucket> buckets, Communicator& comm) {
  parameters_.assign(parameters.begin(), parameters.end());
  members_.clear();
  for (const Bucket& bucket : buckets) {
    members_.push_back(bucket.members);
  }
  inner_->prepare(parameters, buckets, comm);
}

Work FiniteCheck::all_reduce(std::size_t index, const Chunk& piece, Communicator& comm) {
  if (!is_finite(piece.grads)) {
    for (const std::size_t member : members_[index]) {
      if (!is_finite(parameters_[member].grad())) {
        throw not_finite(step_, piece.label, parameters_[member]);
      }
    }
  }
  return inner_->all_reduce(index, piece, comm);
}

}  // namespace brigade::dist
