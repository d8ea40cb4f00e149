#include "optim/adam.h"

#include "core/error.h"
#include "core/ops.h"

namespace brigade::optim {

Adam::Adam(std::vector<autograd::Variable> parameters, Options options)
    : Optimizer(std::move(parameters)), options_(options) {
  BRIGADE_CHECK(options.lr >= 0.0 && options.eps >= 0.0 && options.weight_decay >= 0.0,
                "adam: expected lr, eps and weight_decay >= 0, got ", options.lr, ", ", options.eps,
                ", ", options.weight_decay);
  BRIGADE_CHECK(
      options.beta1 >= 0.0 && options.beta1 < 1.0 && options.beta2 >= 0.0 && options.beta2 < 1.0,
      "adam: expected betas in [0, 1), got ", options.beta1, " and ", options.beta2);
  for (const FlatSpan& span : spans()) {
    first_moment_.push_back(
        Tensor::zeros(span.data.shape(), span.data.dtype(), span.data.device()));
    second_moment_.push_back(
        Tensor::zeros(span.data.shape(), span.data.dtype(), span.data.device()));
  }
}

void Adam::update(std::size_t span_index, const FlatSpan& span) {
  Tensor weights = span.data;
  ops::adam({.lr = options_.lr,
             .beta1 = options_.beta1,
             .beta2 = options_.beta2,
             .eps = options_.eps,
             .weight_decay = options_.weight_decay,
             .decoupled = options_.decoupled,
             .step = steps_done()},
            span.grad, weights, first_moment_[span_index], second_moment_[span_index]);
}

}  // namespace brigade::optim
