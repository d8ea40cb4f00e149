#pragma once

#include <array>

#include "core/kernel_args.h"

namespace brigade::ops {

using Strides = std::array<std::int64_t, Shape::kMaxRank>;

/// Of a contiguous row-major tensor of this shape.
Strides strides_of(const Shape& shape);

/// Of a contiguous row-major tensor that is broadcast to the shape `to`: 0 where it is repeated.
Strides broadcast_strides(const Shape& shape, const Shape& to);

/// Both layouts with fewer and longer rows for the kernel: dimensions of extent 1 are left out, and
/// a dimension that continues the one before it, in both layouts, is merged with it.
StridePair merged(const Shape& shape, const Strides& a, const Strides& b);

}  // namespace brigade::ops
