#include "core/cuda/kernel.cuh"

namespace brigade {
namespace {

constexpr unsigned kColumns = 32;  // per block: one warp reads 32 neighbours of a row at once
// Per column: they walk the rows in turn and are added up at the end.
constexpr unsigned kLanes = 32;

/// A block owns 32 columns, so no two blocks write one sum and no atomics are needed: the same bits
/// every time.   x: [rows, cols]   sums: [cols]
template <class T>
__global__ void column_sum_kernel(std::int64_t rows, std::int64_t cols, const T* x,
                                  cuda::TypedScale<T> scale, T* sums) {
  __shared__ double partial[kLanes]
                           [kColumns + 1];  // + 1: the columns of a warp lie in different banks
  for (std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * kColumns; base < cols;
       base += static_cast<std::int64_t>(gridDim.x) * kColumns) {
    const std::int64_t column = base + threadIdx.x;
    double sum = 0.0;
    if (column < cols) {
      for (std::int64_t row = threadIdx.y; row < rows; row += kLanes) {
        sum += static_cast<double>(x[row * cols + column]);
      }
    }
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < cols) {
      for (unsigned lane = 1; lane < kLanes; ++lane) {
        sum += partial[lane][threadIdx.x];
      }
      cuda::put(static_cast<T>(sum), scale, &sums[column]);
    }
    __syncthreads();  // before the next columns overwrite `partial`
  }
}

}  // namespace

template <class T>
void CudaKernels::column_sum(Stream& s, std::int64_t rows, std::int64_t cols, const T* x,
                             Scale scale, T* sums) {
  if (cols == 0) {
    return;
  }
  const std::int64_t wanted = (cols + kColumns - 1) / kColumns;
  const auto blocks = static_cast<unsigned>(std::min(wanted, cuda::kMaxBlocks));
  column_sum_kernel<<<blocks, dim3(kColumns, kLanes), 0, cuda::stream_of(s)>>>(
      rows, cols, x, cuda::TypedScale<T>(scale), sums);
  CUDA_CHECK(cudaGetLastError());
}

/// Two passes: the sums keep one block per 32 columns busy, too few to mask the whole matrix as
/// well.
template <class T>
void CudaKernels::relu_bias_backward(Stream& s, std::int64_t rows, std::int64_t cols, const T* dy,
                                     const T* y, T* dz, T* db) {
  relu_backward(s, rows * cols, dy, y, {}, dz);
  column_sum(s, rows, cols, dz, {}, db);
}

template void CudaKernels::column_sum(Stream&, std::int64_t, std::int64_t, const float*, Scale,
                                      float*);
template void CudaKernels::column_sum(Stream&, std::int64_t, std::int64_t, const double*, Scale,
                                      double*);
template void CudaKernels::relu_bias_backward(Stream&, std::int64_t, std::int64_t, const float*,
                                              const float*, float*, float*);
template void CudaKernels::relu_bias_backward(Stream&, std::int64_t, std::int64_t, const double*,
                                              const double*, double*, double*);

}  // namespace brigade
