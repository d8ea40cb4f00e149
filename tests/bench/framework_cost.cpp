#include "tests/bench/framework_cost.h"

#include <algorithm>
#include <ctime>
#include <limits>

#include "autograd/functions/loss.h"
#include "autograd/node.h"
#include "autograd/variable.h"
#include "tests/support/small_model.h"

namespace brigade::bench {
namespace {

/// y = x, whatever the parameter is. Its backward asks for the places of both gradients, as every
/// function does, and writes nothing.
autograd::Variable idle(const autograd::Variable& x, const autograd::Variable& parameter) {
  return autograd::record("idle", Tensor::empty({}), {x, parameter},
                          [](const Tensor& /*dy*/, autograd::GradWriter& grads) {
                            grads.write(1, [](Tensor& /*dw*/, Scale /*scale*/) {});
                            grads.write(0, [](Tensor& /*dx*/, Scale /*scale*/) {});
                          });
}

std::vector<autograd::Variable> small_parameters(std::size_t count, const Shape& shape) {
  std::vector<autograd::Variable> parameters;
  for (std::size_t i = 0; i < count; ++i) {
    parameters.emplace_back(Tensor::zeros(shape), /*requires_grad=*/true,
                            std::to_string(i / 2) + (i % 2 == 0 ? ".weight" : ".bias"));
  }
  return parameters;
}

/// Processor time of this thread: what others do on its core is no part of it.
double thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

}  // namespace

EngineChain::EngineChain(std::size_t nodes)
    : parameters_(small_parameters(nodes, {})), x_(Tensor::zeros({}), /*requires_grad=*/true) {
  for (std::size_t i = 0; i < nodes; ++i) {
    handles_.push_back(parameters_[i].attach_listener(listener_, i));
  }
}

autograd::Variable EngineChain::end() const {
  autograd::Variable y = x_;
  for (const autograd::Variable& parameter : parameters_) {
    y = idle(y, parameter);
  }
  return y;
}

void EngineChain::run() {
  end().backward();
}

NarrowNetwork::NarrowNetwork(std::size_t layers)
    : model_(test::make_mlp(std::vector<std::int64_t>(layers + 1, 1))),
      x_(Tensor::zeros({1, 1})),
      target_(Tensor::zeros({1, 1})) {}

autograd::Variable NarrowNetwork::loss() {
  return autograd::mse_loss(model_->forward(autograd::Variable(x_)), target_);
}

void NarrowNetwork::run() {
  loss().backward();
}

WrappedParameters::WrappedParameters(std::size_t count)
    : parameters_(small_parameters(count, {16})),
      data_parallel_(parameters_, comm_, {.bucket_bytes = 400 * dist::kSliceAlignment}) {}

void WrappedParameters::report_all() {
  data_parallel_.on_backward_begin();
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    data_parallel_.on_grad_ready(i);
  }
  data_parallel_.on_backward_end();
}

dist::BucketPlan plan_of(std::size_t count) {
  std::vector<dist::PlanParameter> parameters(count);
  for (std::size_t i = 0; i < count; ++i) {
    parameters[i] = {.name = std::to_string(i / 2) + ".p", .bytes = dist::kSliceAlignment};
  }
  return dist::assign_buckets(parameters, dist::expected_order(parameters),
                              400 * dist::kSliceAlignment);
}

double ns_per_node(std::size_t nodes, const std::function<void()>& run) {
  constexpr double kBudget = 3e7;
  constexpr int kFewest = 3;
  double fastest = std::numeric_limits<double>::max();
  const double start = thread_ns();
  for (int runs = 0; runs < kFewest || thread_ns() - start < kBudget; ++runs) {
    const double begin = thread_ns();
    run();
    fastest = std::min(fastest, thread_ns() - begin);
  }
  return fastest / static_cast<double>(nodes);
}

}  // namespace brigade::bench
