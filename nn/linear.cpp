#include "nn/linear.h"

#include <cmath>

#include "core/error.h"
#include "core/ops.h"
#include "core/random.h"

namespace brigade::nn {
namespace {

Variable uniform_parameter(const Shape& shape, double bound, const RandomStream& stream) {
  Tensor values = Tensor::empty(shape);
  ops::uniform({.stream = stream, .low = -bound, .high = bound}, values);
  return Variable(std::move(values), /*requires_grad=*/true);
}

}  // namespace

Linear::Linear(std::int64_t in, std::int64_t out, const LinearOptions& options)
    : precision_(options.precision) {
  BRIGADE_CHECK(in > 0 && out > 0, "Linear: expected positive features, got {} in, {} out", in,
                out);
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));
  const RandomStream weight_stream = next_parameter_stream();
  const RandomStream bias_stream = next_parameter_stream();
  weight_ = register_parameter("weight", uniform_parameter({out, in}, bound, weight_stream));
  if (options.bias) {
    bias_ = register_parameter("bias", uniform_parameter({out}, bound, bias_stream));
  }
}

Variable Linear::forward(const Variable& x) {
  return forward_activated(x, Activation::none);
}

Variable Linear::forward_activated(const Variable& x, Activation activation) const {
  return autograd::fused_linear(x, weight_, bias_, activation, precision_);
}

std::string Linear::description() const {
  return fmt::format("Linear({}, {}{}{})", weight_.shape()[1], weight_.shape()[0],
                     bias_.defined() ? "" : ", no bias",
                     precision_ == autograd::Precision::bf16 ? ", bf16" : "");
}

}  // namespace brigade::nn
