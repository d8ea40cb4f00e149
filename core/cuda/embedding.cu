#include "core/cuda/kernel.cuh"

namespace brigade {
namespace {

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
    for (std::int64_t column = threadIdx.x; column < size.width; column += cuda::kBlock) {
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
  cuda::for_each(s, size.count * size.width, [=] __device__(std::int64_t i) {
    const std::int64_t index = indices[i / size.width];
    const bool valid = index >= 0 && index < size.vocabulary;
    y[i] = valid ? w[index * size.width + i % size.width] : cuda::kNaN<T>;
  });
}

template <class T>
void CudaKernels::embedding_backward(Stream& s, EmbeddingSize size, const std::int64_t* indices,
                                     const T* dy, T alpha, T* dw) {
  cuda::launch(s, size.count, embedding_backward_kernel<T>, size, indices, dy, alpha, dw);
}

template decltype(CudaKernels::embedding<float>) CudaKernels::embedding<float>;
template decltype(CudaKernels::embedding<double>) CudaKernels::embedding<double>;
template decltype(CudaKernels::embedding_backward<float>) CudaKernels::embedding_backward<float>;
template decltype(CudaKernels::embedding_backward<double>) CudaKernels::embedding_backward<double>;

}  // namespace brigade
