#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace brigade {

/// Elements [begin, begin + count) of a flat tensor.
struct Share {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

/// Shares start at multiples of this many elements, a cache line of f32.
inline constexpr std::int64_t kShareUnit = 16;

/// The share of `rank` in `numel` elements divided among `size` ranks. Shares are as equal as
/// possible but start at multiples of kShareUnit, so that no two ranks write to one cache line.
/// Some are empty if there are fewer lines than ranks.
Share share_of(std::int64_t numel, int rank, int size);
/// The same as a flat view of `tensor`.
Tensor share_of(const Tensor& tensor, int rank, int size);

}  // namespace brigade
