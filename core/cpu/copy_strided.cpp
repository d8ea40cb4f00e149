#include "core/cpu/strided_private.h"
#include "core/cpu/vectorized_private.h"
#include "core/kernels.h"

namespace brigade {

/// Row by row along the last dimension, which core/ops_shape.cpp has made as long as it can be.
template <class T>
void CpuKernels::copy_strided(Stream& s, const StridePair& copy, const T* src, Scale scale,
                              T* dst) {
  const std::size_t last = copy.rank - 1;
  const std::int64_t from = copy.a_strides[last];
  const std::int64_t to = copy.b_strides[last];
  for_each_row(copy, [&](std::int64_t source, std::int64_t target) {
    if (from == 1 && to == 1) {
      axpby(s, copy.extents[last], src + source, scale, dst + target);
      return;
    }
    for (std::int64_t i = 0; i < copy.extents[last]; ++i) {
      store(src[source + i * from], scale, dst[target + i * to]);
    }
  });
}

template decltype(CpuKernels::copy_strided<float>) CpuKernels::copy_strided<float>;
template decltype(CpuKernels::copy_strided<double>) CpuKernels::copy_strided<double>;

}  // namespace brigade
