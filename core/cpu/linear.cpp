#include <algorithm>
#include <type_traits>

#include "core/cpu/blas_private.h"
#include "core/cpu/onednn_private.h"
#include "core/cpu/vectorized_private.h"
#include "core/kernels.h"

namespace brigade {
namespace {

/// y[r, c] += b[c], and max(y, 0) if `relu`, in one pass.   y: [rows, cols]
template <class T>
void add_bias(std::int64_t rows, std::int64_t cols, const T* b, bool relu, T* y) {
  vectorized([=] {
    for (std::int64_t row = 0; row < rows; ++row) {
      T* values = y + row * cols;
      for (std::int64_t col = 0; col < cols; ++col) {
        const T value = values[col] + b[col];
        values[col] = relu && value < T{0} ? T{0} : value;  // this way round a NaN passes
      }
    }
  });
}

/// put(c, Σ_r value(r, c)) for every column, row by row: a matrix lies in memory in rows. The sums
/// of a block of columns stay in the first-level cache meanwhile.
template <class T, class Value, class Put>
void sum_columns(std::int64_t rows, std::int64_t cols, const Value& value, const Put& put) {
  constexpr std::int64_t kBlock = 256;
  vectorized([&] {
    for (std::int64_t first = 0; first < cols; first += kBlock) {
      const std::int64_t count = std::min(kBlock, cols - first);
      T sums[kBlock] = {};
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t i = 0; i < count; ++i) {
          sums[i] += value(row * cols + first + i);
        }
      }
      for (std::int64_t i = 0; i < count; ++i) {
        put(first + i, sums[i]);
      }
    }
  });
}

}  // namespace

template <class T, class F>
void CpuKernels::linear(Stream& s, const LinearArgs<T, F>& args) {
  const auto& [batch, in, out, x, w, b, activation, y] = args;
  const bool rectify = activation == Activation::relu;
  if constexpr (std::is_same_v<F, float>) {
    if (use_onednn() && onednn::has_avx512() && batch > 0 && in > 0 && out > 0) {
      onednn::linear(batch, in, out, x, w, b, y);
      if (rectify) {
        relu(s, batch * out, y, y);
      }
      return;
    }
  }
  gemm(s, args.product());
  if (b != nullptr) {
    add_bias(batch, out, b, rectify, y);
  } else if (rectify) {
    relu(s, batch * out, y, y);
  }
}

template <class T>
void CpuKernels::column_sum(Stream& /*s*/, std::int64_t rows, std::int64_t cols, const T* x,
                            Scale scale, T* sums) {
  sum_columns<T>(
      rows, cols, [=](std::int64_t i) { return x[i]; },
      [=](std::int64_t col, T sum) { store(sum, scale, sums[col]); });
}

template <class T>
void CpuKernels::relu_bias_backward(Stream& /*s*/, std::int64_t rows, std::int64_t cols,
                                    const T* dy, const T* y, T* dz, T* db) {
  sum_columns<T>(
      rows, cols,
      [=](std::int64_t i) {
        const T gradient = dy[i];  // read in any case, as in relu_backward
        return dz[i] = y[i] > T{0} ? gradient : T{0};
      },
      [=](std::int64_t col, T sum) { db[col] = sum; });
}

template decltype(CpuKernels::linear<float>) CpuKernels::linear<float>;
template decltype(CpuKernels::linear<double>) CpuKernels::linear<double>;
template decltype(CpuKernels::linear<float, BFloat16>) CpuKernels::linear<float, BFloat16>;
template decltype(CpuKernels::column_sum<float>) CpuKernels::column_sum<float>;
template decltype(CpuKernels::column_sum<double>) CpuKernels::column_sum<double>;
template decltype(CpuKernels::relu_bias_backward<float>) CpuKernels::relu_bias_backward<float>;
template decltype(CpuKernels::relu_bias_backward<double>) CpuKernels::relu_bias_backward<double>;

}  // namespace brigade
