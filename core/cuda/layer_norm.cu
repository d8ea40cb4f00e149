#include "core/cuda/kernel.cuh"

namespace brigade {
namespace {

using cuda::block_sum;
using cuda::kBlock;
using cuda::kMaxBlocks;
using cuda::put;
using cuda::stream_of;
using cuda::TypedScale;

/// One block per row at a time.   x, y: [rows, cols]
template <class T>
__global__ void layer_norm_kernel(LayerNormArgs<T> args) {
  const std::int64_t cols = args.cols;
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const T* x = args.x + row * cols;
    T* y = args.y + row * cols;
    double sum = 0.0;
    for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) {
      sum += static_cast<double>(x[i]);
    }
    const double mean = block_sum(sum) / static_cast<double>(cols);
    double squares = 0.0;
    for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) {
      const double difference = static_cast<double>(x[i]) - mean;
      squares += difference * difference;
    }
    const double variance = block_sum(squares) / static_cast<double>(cols);
    const T m = static_cast<T>(mean);
    const T rstd = static_cast<T>(1.0 / sqrt(variance + args.eps));
    for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) {
      const T normalized = (x[i] - m) * rstd;
      y[i] = (args.weight != nullptr ? normalized * args.weight[i] : normalized) +
             (args.bias != nullptr ? args.bias[i] : T{0});
    }
    if (threadIdx.x == 0) {
      args.mean[row] = m;
      args.rstd[row] = rstd;
    }
  }
}

constexpr unsigned kColumns = 32;  // per block: one warp reads 32 neighbours of a row at once
constexpr unsigned kLanes = 32;    // per column: they walk the rows in turn

/// A block owns 32 columns, as in column_sum.cu.
template <class T>
__global__ void weight_backward_kernel(LayerNormBackwardArgs<T> args, TypedScale<T> scale, T* dw) {
  __shared__ double partial[kLanes][kColumns + 1];  // + 1: a warp's columns, in different banks
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kColumns;
  for (std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * kColumns; base < args.cols;
       base += step) {
    const std::int64_t column = base + threadIdx.x;
    double sum = 0.0;
    if (column < args.cols) {
      for (std::int64_t row = threadIdx.y; row < args.rows; row += kLanes) {
        const std::int64_t i = row * args.cols + column;
        const T normalized = (args.x[i] - args.mean[row]) * args.rstd[row];
        sum += static_cast<double>(args.dy[i] * normalized);
      }
    }
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < args.cols) {
      for (unsigned lane = 1; lane < kLanes; ++lane) {
        sum += partial[lane][threadIdx.x];
      }
      put(static_cast<T>(sum), scale, &dw[column]);
    }
    __syncthreads();  // before the next columns overwrite `partial`
  }
}

/// One block per row at a time.   dx: [rows, cols]
template <class T>
__global__ void input_backward_kernel(LayerNormBackwardArgs<T> args, TypedScale<T> scale, T* dx) {
  const std::int64_t cols = args.cols;
  const auto g = [&](std::int64_t i, std::int64_t column) {
    return args.weight != nullptr ? args.dy[i] * args.weight[column] : args.dy[i];
  };
  for (std::int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const T mean = args.mean[row];
    const T rstd = args.rstd[row];
    double sum_g = 0.0;
    double sum_gx = 0.0;
    for (std::int64_t column = threadIdx.x; column < cols; column += kBlock) {
      const std::int64_t i = row * cols + column;
      sum_g += static_cast<double>(g(i, column));
      sum_gx += static_cast<double>(g(i, column) * ((args.x[i] - mean) * rstd));
    }
    const T mean_g = static_cast<T>(block_sum(sum_g) / static_cast<double>(cols));
    const T mean_gx = static_cast<T>(block_sum(sum_gx) / static_cast<double>(cols));
    for (std::int64_t column = threadIdx.x; column < cols; column += kBlock) {
      const std::int64_t i = row * cols + column;
      const T normalized = (args.x[i] - mean) * rstd;
      put(rstd * (g(i, column) - mean_g - normalized * mean_gx), scale, &dx[i]);
    }
  }
}

unsigned blocks_of(std::int64_t wanted) {
  return static_cast<unsigned>(std::min(wanted, kMaxBlocks));
}

}  // namespace

template <class T>
void CudaKernels::layer_norm(Stream& s, const LayerNormArgs<T>& args) {
  if (args.rows > 0) {
    layer_norm_kernel<<<blocks_of(args.rows), kBlock, 0, stream_of(s)>>>(args);
    CUDA_CHECK(cudaGetLastError());
  }
}

template <class T>
void CudaKernels::layer_norm_weight_backward(Stream& s, const LayerNormBackwardArgs<T>& args,
                                             Scale scale, T* dw) {
  if (args.cols > 0) {
    const unsigned blocks = blocks_of((args.cols + kColumns - 1) / kColumns);
    weight_backward_kernel<<<blocks, dim3(kColumns, kLanes), 0, stream_of(s)>>>(
        args, TypedScale<T>(scale), dw);
    CUDA_CHECK(cudaGetLastError());
  }
}

template <class T>
void CudaKernels::layer_norm_input_backward(Stream& s, const LayerNormBackwardArgs<T>& args,
                                            Scale scale, T* dx) {
  if (args.rows > 0) {
    input_backward_kernel<<<blocks_of(args.rows), kBlock, 0, stream_of(s)>>>(
        args, TypedScale<T>(scale), dx);
    CUDA_CHECK(cudaGetLastError());
  }
}

template void CudaKernels::layer_norm(Stream&, const LayerNormArgs<float>&);
template void CudaKernels::layer_norm(Stream&, const LayerNormArgs<double>&);
template void CudaKernels::layer_norm_weight_backward(Stream&, const LayerNormBackwardArgs<float>&,
                                                      Scale, float*);
template void CudaKernels::layer_norm_weight_backward(Stream&, const LayerNormBackwardArgs<double>&,
                                                      Scale, double*);
template void CudaKernels::layer_norm_input_backward(Stream&, const LayerNormBackwardArgs<float>&,
                                                     Scale, float*);
template void CudaKernels::layer_norm_input_backward(Stream&, const LayerNormBackwardArgs<double>&,
                                                     Scale, double*);

}  // namespace brigade
