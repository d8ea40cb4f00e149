#include "core/cuda/kernel.cuh"

namespace brigade {

/// One thread per element, in row-major order of the indices.
template <class T>
void CudaKernels::copy_strided(Stream& s, const StridePair& copy, const T* src, Scale scale,
                               T* dst) {
  std::int64_t n = 1;
  for (std::size_t dim = 0; dim < copy.rank; ++dim) {
    n *= copy.extents[dim];
  }
  const cuda::ScaledStore<T> store(scale);
  cuda::for_each(s, n, [=] __device__(std::int64_t i) {
    std::int64_t from = 0;
    std::int64_t to = 0;
    std::int64_t rest = i;
    for (std::size_t dim = copy.rank; dim-- > 0;) {
      const std::int64_t index = rest % copy.extents[dim];
      rest /= copy.extents[dim];
      from += index * copy.a_strides[dim];
      to += index * copy.b_strides[dim];
    }
    store(src[from], &dst[to]);
  });
}

template decltype(CudaKernels::copy_strided<float>) CudaKernels::copy_strided<float>;
template decltype(CudaKernels::copy_strided<double>) CudaKernels::copy_strided<double>;

}  // namespace brigade
