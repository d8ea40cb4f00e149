#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/ops.h"

namespace brigade::test {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

inline Tensor f32(const std::vector<float>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

/// Memory as the allocator may hand it out.
inline Tensor poisoned(const Shape& shape) {
  return f32(std::vector<float>(static_cast<std::size_t>(shape.numel()), kNaN), shape);
}

/// Numbers in [-1, 1), others for each `sequence`.
inline Tensor numbers(const Shape& shape, std::uint32_t sequence) {
  Tensor x = Tensor::empty(shape);
  ops::uniform({.stream = {.seed = 1, .sequence = sequence}, .low = -1.0, .high = 1.0}, x);
  return x;
}

inline std::vector<float> values(const Tensor& tensor) {
  return tensor.to_vector<float>();
}

}  // namespace brigade::test
