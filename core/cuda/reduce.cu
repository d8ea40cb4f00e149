#include "core/cuda/reduce.cuh"

namespace brigade {
namespace {

/// The largest number so far and its index, -1 before the first. NaN is larger than any number; of
/// equal ones the first counts.
template <class T>
struct Max {
  T value;
  std::int64_t index;

  __device__ void join(Max other) {
    const bool nan = value != value;
    const bool other_nan = other.value != other.value;
    const bool larger = other.value > value || (other_nan && !nan);
    const bool equal = other.value == value || (other_nan && nan);
    if (other.index >= 0 && (index < 0 || larger || (equal && other.index < index))) {
      *this = other;
    }
  }
};

}  // namespace

template <class T>
void CudaReductions<T>::reduce_sum(Stream& s, ReduceShape shape, const T* x, Scale scale, T* y) {
  const auto addend = [=] __device__(std::int64_t i, std::int64_t /*j*/) { return x[i]; };
  cuda::sum_over(s, shape, addend, scale, y);
}

template <class T>
void CudaReductions<T>::reduce_max(Stream& s, ReduceShape shape, const T* x, T* y,
                                   std::int64_t* index) {
  cuda::reduce(
      s, shape, Max<T>{T{0}, -1},
      [=] __device__(std::int64_t i, std::int64_t j) {
        return Max<T>{x[i], j};
      },
      [=] __device__(std::int64_t output, Max<T> total) {
        y[output] = total.value;
        index[output] = total.index;
      });
}

template <class T>
void CudaReductions<T>::reduce_backward(Stream& s, ReduceShape shape, const T* dy,
                                        const std::int64_t* index, Scale scale, T* dx) {
  const cuda::ScaledStore<T> store(scale);
  cuda::for_each(s, shape.n * shape.outputs(), [=] __device__(std::int64_t i) {
    const std::int64_t row = i / shape.inner;
    const std::int64_t output = row / shape.n * shape.inner + i % shape.inner;
    const bool chosen = index == nullptr || index[output] == row % shape.n;
    store(chosen ? dy[output] : T{0}, &dx[i]);
  });
}

/// Two passes: the sums keep one block per 32 columns busy, too few to mask the whole matrix as
/// well.
template <class T>
void CudaReductions<T>::bias_backward(Stream& s, UnaryOp op, std::int64_t rows, std::int64_t cols,
                                      const T* dy, const T* kept, T* dz, T* db) {
  CudaElementwise<T>::unary_backward(s, op, rows * cols, dy, kept, {}, dz);
  reduce_sum(s, {.outer = 1, .n = rows, .inner = cols}, dz, {}, db);
}

template struct CudaReductions<float>;
template struct CudaReductions<double>;

}  // namespace brigade
