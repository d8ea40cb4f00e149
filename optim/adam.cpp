#include "optim/adam.h"

#include "core/error.h"
#include "core/ops.h"

namespace brigade::optim {

Adam::Adam(const std::vector<autograd::Variable>& parameters, const Options& options)
    : Optimizer(parameters, {"exp_avg", "exp_avg_sq"},
                {options.lr, options.weight_decay, options.decay_matrices_only}),
      options_(options) {
  BRIGADE_CHECK(options.eps >= 0.0, "adam: expected eps >= 0, got {}", options.eps);
  BRIGADE_CHECK(
      options.beta1 >= 0.0 && options.beta1 < 1.0 && options.beta2 >= 0.0 && options.beta2 < 1.0,
      "adam: expected betas in [0, 1), got {} and {}", options.beta1, options.beta2);
}

void Adam::update(const ParamRange& part) {
  Tensor weights = part.data;
  Tensor first_moment = state(0, part);
  Tensor second_moment = state(1, part);
  ops::adam({.lr = part.lr,
             .beta1 = options_.beta1,
             .beta2 = options_.beta2,
             .eps = options_.eps,
             .weight_decay = part.weight_decay,
             .decoupled = options_.decoupled,
             .step = part.step},
            part.grad, weights, first_moment, second_moment);
}

}  // namespace brigade::optim
