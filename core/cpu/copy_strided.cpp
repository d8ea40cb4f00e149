#include "core/cpu/vectorized_private.h"
#include "core/kernels.h"

namespace brigade {

/// Line by line along the last dimension, which ops::copy_strided has made as long as it can be.
template <class T>
void CpuKernels::copy_strided(Stream& s, const StridedCopy& copy, const T* src, Scale scale,
                              T* dst) {
  const std::size_t last = copy.rank - 1;
  std::int64_t lines = 1;
  for (std::size_t dim = 0; dim < last; ++dim) {
    lines *= copy.extents[dim];
  }
  const bool contiguous = copy.from[last] == 1 && copy.to[last] == 1;
  for (std::int64_t line = 0; line < lines; ++line) {
    const T* source = src;
    T* target = dst;
    std::int64_t rest = line;
    for (std::size_t dim = last; dim-- > 0;) {
      const std::int64_t index = rest % copy.extents[dim];
      rest /= copy.extents[dim];
      source += index * copy.from[dim];
      target += index * copy.to[dim];
    }
    if (contiguous) {
      axpby(s, copy.extents[last], source, scale, target);
    } else {
      for (std::int64_t i = 0; i < copy.extents[last]; ++i) {
        store(source[i * copy.from[last]], scale, target[i * copy.to[last]]);
      }
    }
  }
}

template decltype(CpuKernels::copy_strided<float>) CpuKernels::copy_strided<float>;
template decltype(CpuKernels::copy_strided<double>) CpuKernels::copy_strided<double>;

}  // namespace brigade
