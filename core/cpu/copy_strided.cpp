#include "core/kernels.h"

namespace brigade {
namespace {

/// dst[i to] = alpha src[i from] + beta dst[i to] for i < n; reads dst only when beta says so.
template <class T>
void copy_line(std::int64_t n, const T* src, std::int64_t from, Scale scale, T* dst,
               std::int64_t to) {
  const T alpha = static_cast<T>(scale.alpha);
  const T beta = static_cast<T>(scale.beta);
  if (beta == T{0}) {
    for (std::int64_t i = 0; i < n; ++i) {
      dst[i * to] = alpha * src[i * from];
    }
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      dst[i * to] = alpha * src[i * from] + beta * dst[i * to];
    }
  }
}

}  // namespace

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
      copy_line(copy.extents[last], source, copy.from[last], scale, target, copy.to[last]);
    }
  }
}

template void CpuKernels::copy_strided(Stream&, const StridedCopy&, const float*, Scale, float*);
template void CpuKernels::copy_strided(Stream&, const StridedCopy&, const double*, Scale, double*);

}  // namespace brigade
