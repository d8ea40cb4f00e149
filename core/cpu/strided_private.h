#pragma once

#include "core/kernel_args.h"

namespace brigade {

/// fn(a, b) for each row, that is the last dimension, in row-major order: the places of its first
/// element in the two layouts.
template <class Fn>
void for_each_row(const StridePair& layouts, const Fn& fn) {
  const std::size_t last = layouts.rank - 1;
  std::int64_t rows = 1;
  for (std::size_t dim = 0; dim < last; ++dim) {
    rows *= layouts.extents[dim];
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t a = 0;
    std::int64_t b = 0;
    std::int64_t rest = row;
    for (std::size_t dim = last; dim-- > 0;) {
      // The first dimension needs no division.
      const std::int64_t index = dim == 0 ? rest : rest % layouts.extents[dim];
      rest = dim == 0 ? 0 : rest / layouts.extents[dim];
      a += index * layouts.a_strides[dim];
      b += index * layouts.b_strides[dim];
    }
    fn(a, b);
  }
}

}  // namespace brigade
