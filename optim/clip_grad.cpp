#include "optim/clip_grad.h"

#include "core/error.h"
#include "core/ops.h"

namespace brigade::optim {

Tensor clip_grad_norm(Optimizer& optimizer, double max_norm) {
  BRIGADE_CHECK(max_norm > 0.0, "clip_grad_norm: expected max_norm > 0, got {}", max_norm);
  const std::vector<ParamRange> parts = optimizer.parts();
  Tensor squares =
      Tensor::zeros({}, DType::f64, parts.empty() ? kCpu : parts.front().grad.device());
  for (const ParamRange& part : parts) {
    ops::add_squares(part.grad, squares);
  }
  optimizer.sum_over_shards(squares);
  // Only when the last square is in the sum: the norm is one of all gradients.
  for (const ParamRange& part : parts) {
    Tensor grad = part.grad;
    ops::clip(squares, max_norm, grad);
  }
  ops::unary(UnaryOp::sqrt, squares, squares);
  return squares;
}

}  // namespace brigade::optim
