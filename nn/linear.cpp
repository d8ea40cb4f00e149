#include "nn/linear.h"

#include <cmath>

#include "core/ops.h"
#include "core/random.h"

namespace brigade::nn {
namespace {

Variable uniform_parameter(const Linear::Options& options, const Shape& shape,
                           std::uint32_t sequence) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(options.in));
  Tensor values = Tensor::empty(shape, DType::f32, options.device);
  ops::uniform({.seed = options.seed,
                .sequence = sequences::kParameters + sequence,
                .low = -bound,
                .high = bound},
               values);
  return Variable(std::move(values), /*requires_grad=*/true);
}

}  // namespace

Linear::Linear(const Options& options) : precision_(options.precision) {
  BRIGADE_CHECK(options.in > 0 && options.out > 0, "Linear: expected positive features, got ",
                options.in, " in, ", options.out, " out");
  weight_ = uniform_parameter(options, {options.out, options.in}, options.first_sequence);
  if (options.bias) {
    bias_ = uniform_parameter(options, {options.out}, options.first_sequence + 1);
  }
}

Variable Linear::forward(const Variable& x) {
  return autograd::linear(x, weight_, bias_, precision_);
}

Variable Linear::forward_relu(const Variable& x) const {
  return autograd::linear_relu(x, weight_, bias_, precision_);
}

void Linear::collect_parameters(const std::string& prefix,
                                std::vector<Variable>& parameters) const {
  weight_.set_name(prefix + "weight");
  parameters.push_back(weight_);
  if (bias_.defined()) {
    bias_.set_name(prefix + "bias");
    parameters.push_back(bias_);
  }
}

std::string Linear::description() const {
  return concat("Linear(", weight_.shape()[1], ", ", weight_.shape()[0],
                bias_.defined() ? "" : ", no bias",
                precision_ == autograd::Precision::bf16 ? ", bf16)" : ")");
}

}  // namespace brigade::nn
