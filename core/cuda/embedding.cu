#include "core/cuda/kernel.cuh"

namespace brigade {
namespace {

using cuda::first_index;
using cuda::index_stride;
using cuda::kBlock;
using cuda::kNaN;
using cuda::launch;
using cuda::stream_of;

template <class T>
__global__ void embedding_kernel(std::int64_t n, EmbeddingSize size, const std::int64_t* indices,
                                 const T* w, T* y) {
  for (std::int64_t i = first_index(); i < n; i += index_stride()) {
    const std::int64_t index = indices[i / size.width];
    const bool valid = index >= 0 && index < size.vocabulary;
    y[i] = valid ? w[index * size.width + i % size.width] : kNaN<T>;
  }
}

__device__ bool occurs_before(const std::int64_t* indices, std::int64_t position) {
  for (std::int64_t i = 0; i < position; ++i) {
    if (indices[i] == indices[position]) {
      return true;
    }
  }
  return false;
}

/// The block of an index's first position adds all dy[i] with that index to the row, one thread per
/// column, in the order of i. No atomics, hence the same bits every time, and no sorting, for the
/// price of count² / 2 comparisons of indices. An index outside the vocabulary adds nothing.
template <class T>
__global__ void embedding_backward_kernel(EmbeddingSize size, const std::int64_t* indices,
                                          const T* dy, T alpha, T* dw) {
  for (std::int64_t first = blockIdx.x; first < size.count; first += gridDim.x) {
    const std::int64_t index = indices[first];
    if (index < 0 || index >= size.vocabulary || occurs_before(indices, first)) {
      continue;
    }
    for (std::int64_t column = threadIdx.x; column < size.width; column += kBlock) {
      T sum = dw[index * size.width + column];
      for (std::int64_t i = first; i < size.count; ++i) {
        sum += indices[i] == index ? alpha * dy[i * size.width + column] : T{0};
      }
      dw[index * size.width + column] = sum;
    }
  }
}

}  // namespace

template <class T>
void CudaKernels::embedding(Stream& s, EmbeddingSize size, const std::int64_t* indices, const T* w,
                            T* y) {
  launch(s, embedding_kernel<T>, size.count * size.width, size, indices, w, y);
}

template <class T>
void CudaKernels::embedding_backward(Stream& s, EmbeddingSize size, const std::int64_t* indices,
                                     const T* dy, T alpha, T* dw) {
  if (size.count > 0) {
    const auto blocks = static_cast<unsigned>(std::min(size.count, cuda::kMaxBlocks));
    embedding_backward_kernel<<<blocks, kBlock, 0, stream_of(s)>>>(size, indices, dy, alpha, dw);
    CUDA_CHECK(cudaGetLastError());
  }
}

template void CudaKernels::embedding(Stream&, EmbeddingSize, const std::int64_t*, const float*,
                                     float*);
template void CudaKernels::embedding(Stream&, EmbeddingSize, const std::int64_t*, const double*,
                                     double*);
template void CudaKernels::embedding_backward(Stream&, EmbeddingSize, const std::int64_t*,
                                              const float*, float, float*);
template void CudaKernels::embedding_backward(Stream&, EmbeddingSize, const std::int64_t*,
                                              const double*, double, double*);

}  // namespace brigade
