#include "core/cuda/kernel.cuh"

namespace brigade {
namespace {

using cuda::block_sum;
using cuda::kBlock;

constexpr double kNothing = 1e-6;  // as on the CPU

template <class T>
__device__ double dot(std::int64_t n, const T* a, const T* b) {
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < n; i += kBlock) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return block_sum(sum);
}

/// As on the CPU. A thread only ever touches its own columns, so what another thread writes needs
/// no waiting for; block_sum() meets all threads, and gives all the same answer.
template <class T>
__device__ bool make_orthonormal(std::int64_t rows, std::int64_t cols, const T* basis, T* x) {
  const double before = sqrt(dot(cols, x, x));
  for (int pass = 0; pass < 2; ++pass) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const T share = static_cast<T>(dot(cols, basis + row * cols, x));
      for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) {
        x[i] -= share * basis[row * cols + i];
      }
    }
  }
  const double left = sqrt(dot(cols, x, x));
  if (left <= kNothing * before) {
    return false;
  }
  for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) {
    x[i] = static_cast<T>(static_cast<double>(x[i]) / left);
  }
  return true;
}

/// One block: each row depends on all before it, and there are few.
template <class T>
__global__ void orthonormalize_kernel(std::int64_t rows, std::int64_t cols, T* x) {
  for (std::int64_t row = 0; row < rows; ++row) {
    T* current = x + row * cols;
    for (std::int64_t basis = 0; !make_orthonormal(row, cols, x, current) && basis <= row;
         ++basis) {
      for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) {
        current[i] = i == basis ? T{1} : T{0};
      }
    }
  }
}

}  // namespace

template <class T>
void CudaProducts<T>::orthonormalize(Stream& s, std::int64_t rows, std::int64_t cols, T* x) {
  cuda::launch(s, rows > 0 ? 1 : 0, orthonormalize_kernel<T>, rows, cols, x);
}

template decltype(CudaProducts<float>::orthonormalize) CudaProducts<float>::orthonormalize;
template decltype(CudaProducts<double>::orthonormalize) CudaProducts<double>::orthonormalize;

}  // namespace brigade
