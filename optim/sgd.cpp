#include "optim/sgd.h"

#include "core/error.h"
#include "core/ops.h"

namespace brigade::optim {

using Names = std::vector<std::string>;

SGD::SGD(const std::vector<autograd::Variable>& parameters, const Options& options)
    : Optimizer(parameters, options.momentum > 0.0 ? Names{"momentum_buffer"} : Names{},
                {options.lr, options.weight_decay, options.decay_matrices_only}),
      options_(options) {
  BRIGADE_CHECK(options.momentum >= 0.0, "sgd: expected momentum >= 0, got {}", options.momentum);
  BRIGADE_CHECK(!options.nesterov || options.momentum > 0.0, "sgd: Nesterov needs momentum > 0");
}

// In place, one kernel for a flat bucket, whose g the GEMM wrote and the all-reduce summed:
//
//   g += weight_decay w    v = momentum v + g    w -= lr v    (without momentum v = g)
void SGD::update(const ParamRange& part) {
  Tensor weights = part.data;
  Tensor velocity = options_.momentum > 0.0 ? state(0, part) : Tensor();
  ops::sgd({.lr = part.lr,
            .momentum = options_.momentum,
            .weight_decay = part.weight_decay,
            .nesterov = options_.nesterov},
           part.grad, weights, velocity);
}

}  // namespace brigade::optim
