#pragma once

#include <cstdint>

#include "autograd/variable.h"

namespace brigade::autograd {

/// y = exp(x) / Σ exp(x), the sums over `dim`, which counts from the end if negative. The largest x
/// is subtracted first, so that exp cannot overflow. x and y have equal shapes; backward keeps y.
/// Throws Error if there is no such dimension or it is empty.
Variable softmax(const Variable& x, std::int64_t dim = -1);

/// The logarithm of softmax, computed as x - log Σ exp(x): exact where softmax is 0 in floats.
Variable log_softmax(const Variable& x, std::int64_t dim = -1);

}  // namespace brigade::autograd
