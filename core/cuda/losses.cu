#include "core/cuda/reduce.cuh"

namespace brigade {

template <class T>
void CudaKernels::mse(Stream& s, std::int64_t n, const T* x, const T* target, T* loss) {
  const auto squared_error = [=] __device__(std::int64_t i, std::int64_t /*j*/) {
    const double error = static_cast<double>(x[i]) - static_cast<double>(target[i]);
    return error * error;
  };
  cuda::sum_over(s, {.n = n}, squared_error, cuda::mean_of(n), loss);
}

template <class T>
void CudaKernels::mse_backward(Stream& s, std::int64_t n, const T* x, const T* target,
                               const T* dloss, Scale scale, T* dx) {
  const cuda::ScaledStore<T> store(scale);
  cuda::for_each(s, n, [=] __device__(std::int64_t i) {
    store(*dloss * T{2} / static_cast<T>(n) * (x[i] - target[i]), &dx[i]);
  });
}

/// A kernel cannot throw: a label that is no column turns its row into NaN, which the loss shows.
template <class T>
void CudaKernels::one_hot(Stream& s, std::int64_t rows, std::int64_t cols,
                          const std::int64_t* labels, T* y) {
  cuda::for_each(s, rows * cols, [=] __device__(std::int64_t i) {
    const std::int64_t label = labels[i / cols];
    const bool valid = label >= 0 && label < cols;
    y[i] = valid ? (i % cols == label ? T{1} : T{0}) : cuda::kNaN<T>;
  });
}

/// One thread per row. Integer atomics: their order cannot change the sum.
template <class T>
void CudaKernels::count_correct(Stream& s, std::int64_t rows, std::int64_t cols, const T* x,
                                const std::int64_t* labels, std::int64_t* correct) {
  CUDA_CHECK(cudaMemsetAsync(correct, 0, sizeof(*correct), cuda::stream_of(s)));
  auto* total = reinterpret_cast<unsigned long long*>(correct);
  cuda::for_each(s, rows, [=] __device__(std::int64_t row) {
    std::int64_t best = 0;
    for (std::int64_t column = 1; column < cols; ++column) {
      best = x[row * cols + column] > x[row * cols + best] ? column : best;
    }
    if (best == labels[row]) {
      atomicAdd(total, 1ULL);
    }
  });
}

template decltype(CudaKernels::mse<float>) CudaKernels::mse<float>;
template decltype(CudaKernels::mse<double>) CudaKernels::mse<double>;
template decltype(CudaKernels::mse_backward<float>) CudaKernels::mse_backward<float>;
template decltype(CudaKernels::mse_backward<double>) CudaKernels::mse_backward<double>;
template decltype(CudaKernels::one_hot<float>) CudaKernels::one_hot<float>;
template decltype(CudaKernels::one_hot<double>) CudaKernels::one_hot<double>;
template decltype(CudaKernels::count_correct<float>) CudaKernels::count_correct<float>;
template decltype(CudaKernels::count_correct<double>) CudaKernels::count_correct<double>;

}  // namespace brigade
