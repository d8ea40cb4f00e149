#include "core/arithmetic.h"
#include "core/cpu/vectorized_private.h"
#include "core/kernels.h"

namespace brigade {
template <class T>
void CpuReductions<T>::reduce_sum(Stream& /*s*/, ReduceShape shape, const T* x, Scale scale, T* y) {
  for (std::int64_t outer = 0; outer < shape.outer; ++outer) {
    const T* terms = x + outer * shape.n * shape.inner;
    if (shape.inner != 1) {
      T* sums = y + outer * shape.inner;
      sum_columns<T>(
          shape.n, shape.inner, [=](std::int64_t /*row*/, std::int64_t i) { return terms[i]; },
          [=](std::int64_t column, T sum) { store(sum, scale, sums[column]); });
      continue;
    }
    const double sum = scale.alpha * sum_of(shape.n, [terms](std::int64_t i) {
                         return static_cast<double>(terms[i]);
                       });
    y[outer] =
        static_cast<T>(scale.beta == 0.0 ? sum : sum + scale.beta * static_cast<double>(y[outer]));
  }
}

// Row by row, as the numbers lie in memory: a running maximum for each output.
template <class T>
void CpuReductions<T>::reduce_max(Stream& /*s*/, ReduceShape shape, const T* x, T* y,
                                  std::int64_t* index) {
  for (std::int64_t outer = 0; outer < shape.outer; ++outer) {
    T* best = y + outer * shape.inner;
    std::int64_t* best_index = index + outer * shape.inner;
    for (std::int64_t j = 0; j < shape.n; ++j) {
      const T* row = x + (outer * shape.n + j) * shape.inner;
      for (std::int64_t i = 0; i < shape.inner; ++i) {
        const bool first_nan = row[i] != row[i] && best[i] == best[i];
        if (j == 0 || row[i] > best[i] || first_nan) {
          best[i] = row[i];
          best_index[i] = j;
        }
      }
    }
  }
}

template <class T>
void CpuReductions<T>::reduce_backward(Stream& /*s*/, ReduceShape shape, const T* dy,
                                       const std::int64_t* index, Scale scale, T* dx) {
  // dx is walked in rows: those of one output if inner = 1, else those of `inner` outputs.
  const bool whole = shape.inner == 1;
  const std::int64_t rows = whole ? 1 : shape.n;
  const std::int64_t cols = whole ? shape.n : shape.inner;
  for (std::int64_t row = 0; row < shape.outer * rows; ++row) {
    const std::int64_t output = row / rows * shape.inner;
    const std::int64_t j = row % rows;
    const T* gradients = dy + output;
    write_scaled(cols, scale, dx + row * cols, [=](std::int64_t i) {
      const std::int64_t at = whole ? 0 : i;
      const bool chosen = index == nullptr || index[output + at] == (whole ? i : j);
      return chosen ? gradients[at] : T{0};
    });
  }
}

template <class T>
template <class F>
void CpuReductions<T>::bias_backward(Stream& s, UnaryOp op, std::int64_t rows, std::int64_t cols,
                                     const T* dy, const F* kept, F* dz, T* db) {
  visit(op, [&]<UnaryOp kOp>() {
    sum_columns<T>(
        rows, cols,
        [=](std::int64_t /*row*/, std::int64_t i) {
          const T gradient = unary_gradient<kOp>(dy[i], widened(kept[i]));
          dz[i] = narrowed<F>(gradient);
          return gradient;
        },
        [=](std::int64_t col, T sum) { db[col] = sum; });
  });
  if constexpr (std::is_same_v<F, T>) {
    if (cols == 1) {  // a column by itself is a row: with the bits of reduce_sum
      reduce_sum(s, {.outer = 1, .n = rows, .inner = 1}, dz, {}, db);
    }
  }
}

template struct CpuReductions<float>;
template struct CpuReductions<double>;
template decltype(CpuReductions<float>::bias_backward<float>)
    CpuReductions<float>::bias_backward<float>;
template decltype(CpuReductions<float>::bias_backward<BFloat16>)
    CpuReductions<float>::bias_backward<BFloat16>;
template decltype(CpuReductions<double>::bias_backward<double>)
    CpuReductions<double>::bias_backward<double>;

}  // namespace brigade
