#pragma once

#include <vector>

#include "autograd/functions/loss.h"
#include "autograd/variable.h"

namespace brigade::autograd {

/// Runs backward with the gradient `dy` for y (f32): through a mean squared error whose target is
/// as far from y as that takes, dL/dy = 2 (y - target) / n.
inline void backward_from(const Variable& y, const std::vector<float>& dy) {
  std::vector<float> target = y.data().to_vector<float>();
  for (std::size_t i = 0; i < target.size(); ++i) {
    target[i] -= dy.at(i) * static_cast<float>(target.size()) / 2;
  }
  mse_loss(y, Tensor::from(target, y.shape())).backward();
}

inline Variable leaf(const std::vector<float>& values, const Shape& shape) {
  return Variable(Tensor::from(values, shape), /*requires_grad=*/true);
}

inline std::vector<float> gradient(const Variable& x) {
  return x.grad().to_vector<float>();
}

inline std::vector<float> values(const Variable& x) {
  return x.data().to_vector<float>();
}

}  // namespace brigade::autograd
