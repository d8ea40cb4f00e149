#include "core/cuda/kernel.cuh"

namespace brigade {
namespace {

/// One thread per element, in row-major order of the indices.
template <class T>
__global__ void copy_strided_kernel(std::int64_t n, StridePair copy, const T* src,
                                    cuda::TypedScale<T> scale, T* dst) {
  for (std::int64_t i = cuda::first_index(); i < n; i += cuda::index_stride()) {
    std::int64_t from = 0;
    std::int64_t to = 0;
    std::int64_t rest = i;
    for (std::size_t dim = copy.rank; dim-- > 0;) {
      const std::int64_t index = rest % copy.extents[dim];
      rest /= copy.extents[dim];
      from += index * copy.a_strides[dim];
      to += index * copy.b_strides[dim];
    }
    cuda::put(src[from], scale, &dst[to]);
  }
}

}  // namespace

template <class T>
void CudaKernels::copy_strided(Stream& s, const StridePair& copy, const T* src, Scale scale,
                               T* dst) {
  std::int64_t n = 1;
  for (std::size_t dim = 0; dim < copy.rank; ++dim) {
    n *= copy.extents[dim];
  }
  cuda::launch(s, copy_strided_kernel<T>, n, copy, src, cuda::TypedScale<T>(scale), dst);
}

template void CudaKernels::copy_strided(Stream&, const StridePair&, const float*, Scale, float*);
template void CudaKernels::copy_strided(Stream&, const StridePair&, const double*, Scale, double*);

}  // namespace brigade
