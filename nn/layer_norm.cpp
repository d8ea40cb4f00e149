#include "nn/layer_norm.h"

#include "core/error.h"
#include "core/ops.h"

namespace brigade::nn {

LayerNorm::LayerNorm(std::int64_t width) {
  BRIGADE_CHECK(width > 0, "LayerNorm: expected a positive width, got {}", width);
  Tensor ones = Tensor::empty({width});
  ops::fill(1.0, ones);
  weight_ = register_parameter("weight", Variable(ones, true));
  bias_ = register_parameter("bias", Variable(Tensor::zeros({width}), true));
}

std::string LayerNorm::description() const {
  return fmt::format("LayerNorm({})", weight_.shape()[0]);
}

}  // namespace brigade::nn
