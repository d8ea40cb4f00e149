#include "tests/support/grad_check.h"

#include <algorithm>
#include <cmath>

#include "autograd/grad_mode.h"
#include "autograd/variable.h"
#include "core/random.h"

namespace brigade {
namespace {

using autograd::Variable;

constexpr double kStep = 1e-5;

std::vector<Variable> leaves(const std::vector<Tensor>& inputs) {
  std::vector<Variable> result;
  for (const Tensor& input : inputs) {
    result.emplace_back(input, /*requires_grad=*/true);
  }
  return result;
}

double value_at(const ScalarFunction& function, const std::vector<Tensor>& inputs) {
  const autograd::NoGradGuard no_grad;
  return function(leaves(inputs)).data().item();
}

}  // namespace

double largest_gradient_error(const ScalarFunction& function, const std::vector<Tensor>& inputs) {
  const std::vector<Variable> variables = leaves(inputs);
  function(variables).backward();
  double largest = 0.0;
  for (std::size_t input = 0; input < inputs.size(); ++input) {
    BRIGADE_CHECK(variables[input].grad().defined(), "grad_check: no gradient for input {}", input);
    const auto gradient = variables[input].grad().to_vector<double>();
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      double& element = inputs[input].data<double>()[i];
      const double center = element;
      element = center + kStep;
      const double above = value_at(function, inputs);
      element = center - kStep;
      const double below = value_at(function, inputs);
      element = center;
      const double difference = (above - below) / (2 * kStep);
      const double error = std::abs(gradient[i] - difference) / std::max(1.0, std::abs(difference));
      largest = std::isfinite(error) ? std::max(largest, error) : HUGE_VAL;
    }
  }
  return largest;
}

Tensor smooth_values(const Shape& shape, std::uint32_t sequence) {
  Tensor values = Tensor::empty(shape, DType::f64);
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    const std::uint32_t bits =
        random_bits({.seed = 2026, .sequence = sequence}, static_cast<std::uint64_t>(i));
    const double magnitude = 0.25 + 0.75 * static_cast<double>(unit_float(bits));
    values.data<double>()[i] = (bits & 1U) != 0 ? magnitude : -magnitude;
  }
  return values;
}

}  // namespace brigade
