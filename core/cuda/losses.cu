#include "core/cuda/reduce.cuh"

namespace brigade {
namespace {

using cuda::block_sum;
using cuda::blocks_for;
using cuda::first_index;
using cuda::index_stride;
using cuda::kBlock;
using cuda::kMaxPartials;
using cuda::kNaN;
using cuda::launch;
using cuda::mean;
using cuda::Partials;
using cuda::put;
using cuda::stream_of;
using cuda::TypedScale;

// Sums are taken in double and per block, in a fixed order: no atomics, so that the loss is the
// same bits in every run.
template <class T>
__global__ void squared_error_kernel(std::int64_t n, const T* x, const T* target,
                                     double* partials) {
  double sum = 0.0;
  for (std::int64_t i = first_index(); i < n; i += index_stride()) {
    const double error = static_cast<double>(x[i]) - static_cast<double>(target[i]);
    sum += error * error;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = sum;
  }
}

template <class T>
__global__ void mse_backward_kernel(std::int64_t n, const T* x, const T* target, const T* dloss,
                                    TypedScale<T> scale, T* dx) {
  const T slope = *dloss * T{2} / static_cast<T>(n);
  for (std::int64_t i = first_index(); i < n; i += index_stride()) {
    put(slope * (x[i] - target[i]), scale, &dx[i]);
  }
}

template <class T>
__global__ void one_hot_kernel(std::int64_t n, std::int64_t cols, const std::int64_t* labels,
                               T* y) {
  for (std::int64_t i = first_index(); i < n; i += index_stride()) {
    const std::int64_t label = labels[i / cols];
    // A kernel cannot throw: a label that is no column turns its row into NaN, which the loss
    // shows.
    const bool valid = label >= 0 && label < cols;
    y[i] = valid ? (i % cols == label ? T{1} : T{0}) : kNaN<T>;
  }
}

/// One thread per row. Integer atomics: their order cannot change the sum.
template <class T>
__global__ void count_correct_kernel(std::int64_t rows, std::int64_t cols, const T* x,
                                     const std::int64_t* labels, unsigned long long* correct) {
  for (std::int64_t row = first_index(); row < rows; row += index_stride()) {
    std::int64_t best = 0;
    for (std::int64_t column = 1; column < cols; ++column) {
      best = x[row * cols + column] > x[row * cols + best] ? column : best;
    }
    if (best == labels[row]) {
      atomicAdd(correct, 1ULL);
    }
  }
}

}  // namespace

template <class T>
void CudaKernels::mse(Stream& s, std::int64_t n, const T* x, const T* target, T* loss) {
  if (n == 0) {
    fill(s, 1, T{0}, loss);
    return;
  }
  const std::int64_t blocks = std::min<std::int64_t>(blocks_for(n), kMaxPartials);
  const Partials partials(s, blocks);
  squared_error_kernel<<<static_cast<unsigned>(blocks), kBlock, 0, stream_of(s)>>>(n, x, target,
                                                                                   partials.data());
  CUDA_CHECK(cudaGetLastError());
  mean(s, blocks, partials.data(), n, loss);
}

template <class T>
void CudaKernels::mse_backward(Stream& s, std::int64_t n, const T* x, const T* target,
                               const T* dloss, Scale scale, T* dx) {
  launch(s, mse_backward_kernel<T>, n, x, target, dloss, TypedScale<T>(scale), dx);
}

template <class T>
void CudaKernels::one_hot(Stream& s, std::int64_t rows, std::int64_t cols,
                          const std::int64_t* labels, T* y) {
  launch(s, one_hot_kernel<T>, rows * cols, cols, labels, y);
}

template <class T>
void CudaKernels::count_correct(Stream& s, std::int64_t rows, std::int64_t cols, const T* x,
                                const std::int64_t* labels, std::int64_t* correct) {
  CUDA_CHECK(cudaMemsetAsync(correct, 0, sizeof(*correct), stream_of(s)));
  launch(s, count_correct_kernel<T>, rows, cols, x, labels,
         reinterpret_cast<unsigned long long*>(correct));
}

template void CudaKernels::mse(Stream&, std::int64_t, const float*, const float*, float*);
template void CudaKernels::mse(Stream&, std::int64_t, const double*, const double*, double*);
template void CudaKernels::mse_backward(Stream&, std::int64_t, const float*, const float*,
                                        const float*, Scale, float*);
template void CudaKernels::mse_backward(Stream&, std::int64_t, const double*, const double*,
                                        const double*, Scale, double*);
template void CudaKernels::one_hot(Stream&, std::int64_t, std::int64_t, const std::int64_t*,
                                   float*);
template void CudaKernels::one_hot(Stream&, std::int64_t, std::int64_t, const std::int64_t*,
                                   double*);
template void CudaKernels::count_correct(Stream&, std::int64_t, std::int64_t, const float*,
                                         const std::int64_t*, std::int64_t*);
template void CudaKernels::count_correct(Stream&, std::int64_t, std::int64_t, const double*,
                                         const std::int64_t*, std::int64_t*);

}  // namespace brigade
