#include "core/cuda/reduce.cuh"

namespace brigade {
namespace {

using cuda::block_sum;
using cuda::first_index;
using cuda::index_stride;
using cuda::kBlock;
using cuda::kInfinity;
using cuda::kMaxBlocks;
using cuda::kNaN;
using cuda::launch;
using cuda::mean;
using cuda::Partials;
using cuda::put;
using cuda::stream_of;
using cuda::TypedScale;

/// The largest of the block's values, known to all its threads.
template <class T>
__device__ T block_max(T value) {
  __shared__ T largest[kBlock];
  __syncthreads();  // a previous call's readers are done
  largest[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kBlock / 2; half > 0; half /= 2) {
    if (threadIdx.x < half && largest[threadIdx.x + half] > largest[threadIdx.x]) {
      largest[threadIdx.x] = largest[threadIdx.x + half];
    }
    __syncthreads();
  }
  return largest[0];
}

/// One block per row at a time.   x, softmax: [rows, cols]   row_losses: [rows]
///
/// A label outside [0, cols) makes the loss NaN instead of reading outside the row: a kernel cannot
/// throw.
template <class T>
__global__ void cross_entropy_kernel(std::int64_t rows, std::int64_t cols, const T* x,
                                     const std::int64_t* labels, T* softmax, double* row_losses) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* logits = x + row * cols;
    T* probabilities = softmax + row * cols;
    T largest = -kInfinity<T>;
    for (std::int64_t column = threadIdx.x; column < cols; column += kBlock) {
      largest = logits[column] > largest ? logits[column] : largest;
    }
    largest = block_max(largest);  // subtracted, so that exp cannot overflow
    double total = 0.0;
    for (std::int64_t column = threadIdx.x; column < cols; column += kBlock) {
      probabilities[column] = exp(logits[column] - largest);
      total += static_cast<double>(probabilities[column]);
    }
    total = block_sum(total);
    for (std::int64_t column = threadIdx.x; column < cols; column += kBlock) {
      probabilities[column] = static_cast<T>(static_cast<double>(probabilities[column]) / total);
    }
    if (threadIdx.x == 0) {
      const std::int64_t label = labels[row];
      row_losses[row] = label >= 0 && label < cols
                            ? log(total) - static_cast<double>(logits[label] - largest)
                            : kNaN<double>;
    }
  }
}

template <class T>
__global__ void cross_entropy_backward_kernel(std::int64_t n, std::int64_t rows, std::int64_t cols,
                                              const T* softmax, const std::int64_t* labels,
                                              const T* dloss, TypedScale<T> scale, T* dx) {
  const T slope = *dloss / static_cast<T>(rows);
  for (std::int64_t i = first_index(); i < n; i += index_stride()) {
    const T hit = i % cols == labels[i / cols] ? T{1} : T{0};
    put(slope * (softmax[i] - hit), scale, &dx[i]);
  }
}

}  // namespace

template <class T>
void CudaKernels::cross_entropy(Stream& s, std::int64_t rows, std::int64_t cols, const T* x,
                                const std::int64_t* labels, T* softmax, T* loss) {
  if (rows == 0) {
    fill(s, 1, T{0}, loss);
    return;
  }
  const Partials row_losses(s, rows);
  const auto blocks = static_cast<unsigned>(std::min(rows, kMaxBlocks));
  cross_entropy_kernel<<<blocks, kBlock, 0, stream_of(s)>>>(rows, cols, x, labels, softmax,
                                                            row_losses.data());
  CUDA_CHECK(cudaGetLastError());
  mean(s, rows, row_losses.data(), rows, loss);
}

template <class T>
void CudaKernels::cross_entropy_backward(Stream& s, std::int64_t rows, std::int64_t cols,
                                         const T* softmax, const std::int64_t* labels,
                                         const T* dloss, Scale scale, T* dx) {
  launch(s, cross_entropy_backward_kernel<T>, rows * cols, rows, cols, softmax, labels, dloss,
         TypedScale<T>(scale), dx);
}

template void CudaKernels::cross_entropy(Stream&, std::int64_t, std::int64_t, const float*,
                                         const std::int64_t*, float*, float*);
template void CudaKernels::cross_entropy(Stream&, std::int64_t, std::int64_t, const double*,
                                         const std::int64_t*, double*, double*);
template void CudaKernels::cross_entropy_backward(Stream&, std::int64_t, std::int64_t, const float*,
                                                  const std::int64_t*, const float*, Scale, float*);
template void CudaKernels::cross_entropy_backward(Stream&, std::int64_t, std::int64_t,
                                                  const double*, const std::int64_t*, const double*,
                                                  Scale, double*);

}  // namespace brigade
