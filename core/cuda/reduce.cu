#include "core/cuda/reduce.cuh"

#include "core/arithmetic.h"
#include "core/half.h"

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

/// The sums are those of numbers that are not rounded yet, so they are computed twice.
template <UnaryOp op, class T, class F>
void rounded_bias_backward(Stream& s, ReduceShape shape, const T* dy, const F* kept, F* dz, T* db) {
  const auto addend = [=] __device__(std::int64_t i, std::int64_t /*j*/) {
    return unary_gradient<op>(dy[i], widened(kept[i]));
  };
  cuda::sum_over(s, shape, addend, {}, db);
  cuda::for_each(s, shape.n * shape.inner, [=] __device__(std::int64_t i) {
    dz[i] = narrowed<F>(unary_gradient<op>(dy[i], widened(kept[i])));
  });
}

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
template <class F>
void CudaReductions<T>::bias_backward(Stream& s, UnaryOp op, std::int64_t rows, std::int64_t cols,
                                      const T* dy, const F* kept, F* dz, T* db) {
  const ReduceShape columns{.outer = 1, .n = rows, .inner = cols};
  if constexpr (std::is_same_v<F, T>) {
    CudaElementwise<T>::unary_backward(s, op, rows * cols, dy, kept, {}, dz);
    reduce_sum(s, columns, dz, {}, db);
  } else {
    visit(op, [&]<UnaryOp kOp>() { rounded_bias_backward<kOp>(s, columns, dy, kept, dz, db); });
  }
}

template struct CudaReductions<float>;
template struct CudaReductions<double>;
template decltype(CudaReductions<float>::bias_backward<float>)
    CudaReductions<float>::bias_backward<float>;
template decltype(CudaReductions<float>::bias_backward<BFloat16>)
    CudaReductions<float>::bias_backward<BFloat16>;
template decltype(CudaReductions<double>::bias_backward<double>)
    CudaReductions<double>::bias_backward<double>;

}  // namespace brigade
