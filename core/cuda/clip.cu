#include "core/cuda/reduce.cuh"

namespace brigade {
namespace {

using cuda::block_sum;
using cuda::blocks_for;
using cuda::first_index;
using cuda::index_stride;
using cuda::kBlock;
using cuda::kMaxPartials;
using cuda::Partials;
using cuda::stream_of;

template <class T>
__global__ void squares_kernel(std::int64_t n, const T* x, double* partials) {
  double sum = 0.0;
  for (std::int64_t i = first_index(); i < n; i += index_stride()) {
    const double value = static_cast<double>(x[i]);
    sum += value * value;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = sum;
  }
}

/// sum += Σ partials, by one block
__global__ void add_partials_kernel(std::int64_t count, const double* partials, double* sum) {
  double mine = 0.0;
  for (std::int64_t i = threadIdx.x; i < count; i += kBlock) {
    mine += partials[i];
  }
  mine = block_sum(mine);
  if (threadIdx.x == 0) {
    *sum += mine;
  }
}

/// Every thread works out the factor: that is cheaper than a launch of its own, and the host, which
/// does not know the norm, does not wait for it.
template <class T>
__global__ void clip_kernel(std::int64_t n, const double* squares, double max_norm, T* x) {
  const double factor = max_norm / (sqrt(*squares) + 1e-6);
  if (factor >= 1.0) {
    return;
  }
  for (std::int64_t i = first_index(); i < n; i += index_stride()) {
    x[i] *= static_cast<T>(factor);
  }
}

}  // namespace

template <class T>
void CudaKernels::add_squares(Stream& s, std::int64_t n, const T* x, double* sum) {
  if (n == 0) {
    return;
  }
  const std::int64_t blocks = std::min<std::int64_t>(blocks_for(n), kMaxPartials);
  const Partials partials(s, blocks);
  squares_kernel<<<static_cast<unsigned>(blocks), kBlock, 0, stream_of(s)>>>(n, x, partials.data());
  CUDA_CHECK(cudaGetLastError());
  add_partials_kernel<<<1, kBlock, 0, stream_of(s)>>>(blocks, partials.data(), sum);
  CUDA_CHECK(cudaGetLastError());
}

template <class T>
void CudaKernels::clip(Stream& s, std::int64_t n, const double* squares, double max_norm, T* x) {
  cuda::launch(s, clip_kernel<T>, n, squares, max_norm, x);
}

template void CudaKernels::add_squares(Stream&, std::int64_t, const float*, double*);
template void CudaKernels::add_squares(Stream&, std::int64_t, const double*, double*);
template void CudaKernels::clip(Stream&, std::int64_t, const double*, double, float*);
template void CudaKernels::clip(Stream&, std::int64_t, const double*, double, double*);

}  // namespace brigade
