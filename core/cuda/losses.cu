#include "core/cuda/reduce.cuh"

namespace brigade {
namespace {

using cuda::block_sum;
using cuda::kBlock;

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
    T largest = -cuda::kInfinity<T>;
    for (std::int64_t column = threadIdx.x; column < cols; column += kBlock) {
      largest = logits[column] > largest ? logits[column] : largest;
    }
    // subtracted, so that exp cannot overflow
    largest = cuda::block_join(largest, [](T a, T b) { return b > a ? b : a; });
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
                            : cuda::kNaN<double>;
    }
  }
}

}  // namespace

template <class T>
void CudaLosses<T>::mse(Stream& s, std::int64_t n, const T* x, const T* target, T* loss) {
  const auto squared_error = [=] __device__(std::int64_t i, std::int64_t /*j*/) {
    const double error = static_cast<double>(x[i]) - static_cast<double>(target[i]);
    return error * error;
  };
  cuda::sum_over(s, {.n = n}, squared_error, cuda::mean_of(n), loss);
}

template <class T>
void CudaLosses<T>::mse_backward(Stream& s, std::int64_t n, const T* x, const T* target,
                                 const T* dloss, Scale scale, T* dx) {
  const cuda::ScaledStore<T> store(scale);
  cuda::for_each(s, n, [=] __device__(std::int64_t i) {
    store(*dloss * T{2} / static_cast<T>(n) * (x[i] - target[i]), &dx[i]);
  });
}

/// A kernel cannot throw: a label that is no column turns its row into NaN, which the loss shows.
template <class T>
void CudaLosses<T>::one_hot(Stream& s, std::int64_t rows, std::int64_t cols,
                            const std::int64_t* labels, T* y) {
  cuda::for_each(s, rows * cols, [=] __device__(std::int64_t i) {
    const std::int64_t label = labels[i / cols];
    const bool valid = label >= 0 && label < cols;
    y[i] = valid ? (i % cols == label ? T{1} : T{0}) : cuda::kNaN<T>;
  });
}

template <class T>
void CudaLosses<T>::cross_entropy(Stream& s, std::int64_t rows, std::int64_t cols, const T* x,
                                  const std::int64_t* labels, T* softmax, T* loss) {
  const Tensor row_losses = Tensor::empty({rows}, DType::f64, s.device());
  auto* const losses = row_losses.data<double>();
  cuda::launch(s, rows, cross_entropy_kernel<T>, rows, cols, x, labels, softmax, losses);
  const auto loss_of = [=] __device__(std::int64_t row, std::int64_t /*j*/) { return losses[row]; };
  cuda::sum_over(s, {.n = rows}, loss_of, cuda::mean_of(rows), loss);
}

template <class T>
void CudaLosses<T>::cross_entropy_backward(Stream& s, std::int64_t rows, std::int64_t cols,
                                           const T* softmax, const std::int64_t* labels,
                                           const T* dloss, Scale scale, T* dx) {
  const cuda::ScaledStore<T> store(scale);
  cuda::for_each(s, rows * cols, [=] __device__(std::int64_t i) {
    const T hit = i % cols == labels[i / cols] ? T{1} : T{0};
    store(*dloss / static_cast<T>(rows) * (softmax[i] - hit), &dx[i]);
  });
}

template struct CudaLosses<float>;
template struct CudaLosses<double>;

}  // namespace brigade
