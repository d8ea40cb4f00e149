#include "optim/adam.h"

#include "core/error.h"
#include "core/ops.h"

namespace brigade::optim {
namespace {

/// Running averages of the gradient and of its square.
constexpr std::size_t kMoments = 2;

}  // namespace

Adam::Adam(const std::vector<autograd::Variable>& parameters, const Options& options)
    : Optimizer(parameters, kMoments), options_(options) {
  BRIGADE_CHECK(options.lr >= 0.0 && options.eps >= 0.0 && options.weight_decay >= 0.0,
                "adam: expected lr, eps and weight_decay >= 0, got ", options.lr, ", ", options.eps,
                ", ", options.weight_decay);
  BRIGADE_CHECK(
      options.beta1 >= 0.0 && options.beta1 < 1.0 && options.beta2 >= 0.0 && options.beta2 < 1.0,
      "adam: expected betas in [0, 1), got ", options.beta1, " and ", options.beta2);
  if (!parameters.empty()) {
    const Device device = parameters.front().device();
    one_ = Tensor::from(std::vector<double>{1.0}, {}, device);
    counter_ = Tensor::zeros({}, DType::f64, device);
  }
}

/// The bias corrections depend on the number of the step. A repeated step has the numbers it was
/// recorded with, so this one is counted where the weights are, by a kernel that is repeated too.
void Adam::on_begin_step() {
  if (counter_.defined()) {
    ops::axpby(one_, {.beta = 1.0}, counter_);
  }
}

void Adam::update(const ParamRange& part) {
  // In flight it may run when the counter has gone on; what is behind others is not repeated.
  const bool counts = !part.in_flight && part.step == steps_done();
  Tensor weights = part.data;
  Tensor first_moment = state(0, part);
  Tensor second_moment = state(1, part);
  ops::adam({.lr = options_.lr,
             .beta1 = options_.beta1,
             .beta2 = options_.beta2,
             .eps = options_.eps,
             .weight_decay = options_.weight_decay,
             .decoupled = options_.decoupled,
             .step = counts ? 0 : part.step},
            counts ? counter_ : Tensor(), part.grad, weights, first_moment, second_moment);
}

}  // namespace brigade::optim
