#pragma once

#include <functional>
#include <vector>

#include "autograd/variable.h"

namespace brigade {

/// A scalar computed from variables.
using ScalarFunction =
    std::function<autograd::Variable(const std::vector<autograd::Variable>& inputs)>;

/// Compares backward with central differences, (f(x + h) - f(x - h)) / 2h, for every element of
/// every input.
///
/// Returns the largest |backward - difference| / max(1, |difference|). Inputs are f64: in float the
/// difference itself would be wrong in the third digit. With h = 1e-5 a correct backward of a
/// smooth function stays below 1e-9; keep inputs of relu away from 0.
double largest_gradient_error(const ScalarFunction& function, const std::vector<Tensor>& inputs);

/// Reproducible f64 values in ±[0.25, 1): nowhere near relu's kink.
Tensor smooth_values(const Shape& shape, std::uint32_t sequence);

}  // namespace brigade
