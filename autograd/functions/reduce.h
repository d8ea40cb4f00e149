#pragma once

#include <cstdint>

#include "autograd/variable.h"

namespace brigade::autograd {

// Of all elements the result is a scalar. Over `dim`, which counts from the end if negative, the
// result lacks that dimension, or has it with extent 1 if `keepdim`. Throws Error if there is no
// such dimension. The order of the additions depends on the shape alone, so results are
// reproducible bit for bit on a device.

/// 0 of no elements.
Variable sum(const Variable& x);
Variable sum(const Variable& x, std::int64_t dim, bool keepdim = false);

/// NaN of no elements.
Variable mean(const Variable& x);
Variable mean(const Variable& x, std::int64_t dim, bool keepdim = false);

/// The largest value, without its index. NaN if there is one. The whole gradient goes to the first
/// of equal values. Throws Error for no elements.
Variable max(const Variable& x);
Variable max(const Variable& x, std::int64_t dim, bool keepdim = false);

}  // namespace brigade::autograd
