#include "core/cuda/reduce.cuh"

namespace brigade {
namespace {

using cuda::block_sum;
using cuda::kBlock;

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

/// One block per row at a time.   dx: [rows, cols]
template <class T>
__global__ void input_backward_kernel(LayerNormBackwardArgs<T> args, cuda::ScaledStore<T> store,
                                      T* dx) {
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
      store(rstd * (g(i, column) - mean_g - normalized * mean_gx), &dx[i]);
    }
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
void CudaLayers<T>::layer_norm(Stream& s, const LayerNormArgs<T>& args) {
  cuda::launch(s, args.rows, layer_norm_kernel<T>, args);
}

template <class T>
void CudaLayers<T>::layer_norm_weight_backward(Stream& s, const LayerNormBackwardArgs<T>& args,
                                               Scale scale, T* dw) {
  const auto addend = [=] __device__(std::int64_t i, std::int64_t row) {
    return args.dy[i] * ((args.x[i] - args.mean[row]) * args.rstd[row]);
  };
  cuda::sum_over(s, {.n = args.rows, .inner = args.cols}, addend, scale, dw);
}

template <class T>
void CudaLayers<T>::layer_norm_input_backward(Stream& s, const LayerNormBackwardArgs<T>& args,
                                              Scale scale, T* dx) {
  cuda::launch(s, args.rows, input_backward_kernel<T>, args, cuda::ScaledStore<T>(scale), dx);
}

template <class T>
void CudaLayers<T>::embedding(Stream& s, EmbeddingSize size, const std::int64_t* indices,
                              const T* w, T* y) {
  cuda::for_each(s, size.count * size.width, [=] __device__(std::int64_t i) {
    const std::int64_t index = indices[i / size.width];
    const bool valid = index >= 0 && index < size.vocabulary;
    y[i] = valid ? w[index * size.width + i % size.width] : cuda::kNaN<T>;
  });
}

template <class T>
void CudaLayers<T>::embedding_backward(Stream& s, EmbeddingSize size, const std::int64_t* indices,
                                       const T* dy, T alpha, T* dw) {
  cuda::launch(s, size.count, embedding_backward_kernel<T>, size, indices, dy, alpha, dw);
}

template struct CudaLayers<float>;
template struct CudaLayers<double>;

}  // namespace brigade
