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

}  // namespace

template <class T>
template <class F>
void CpuProducts<T>::linear(Stream& s, const LinearArgs<T, F>& args) {
  const auto& [batch, in, out, x, w, b, activation, y] = args;
  const bool rectify = activation == Activation::relu;
  if constexpr (std::is_same_v<F, float>) {
    if (use_onednn() && onednn::has_avx512() && batch > 0 && in > 0 && out > 0) {
      onednn::linear(batch, in, out, x, w, b, y);
      if (rectify) {
        CpuElementwise<T>::unary(s, UnaryOp::relu, batch * out, y, y);
      }
      return;
    }
  }
  gemm(s, args.product());
  if (b != nullptr) {
    add_bias(batch, out, b, rectify, y);
  } else if (rectify) {
    CpuElementwise<T>::unary(s, UnaryOp::relu, batch * out, y, y);
  }
}

template decltype(CpuProducts<float>::linear<float>) CpuProducts<float>::linear<float>;
template decltype(CpuProducts<float>::linear<BFloat16>) CpuProducts<float>::linear<BFloat16>;
template decltype(CpuProducts<double>::linear<double>) CpuProducts<double>::linear<double>;

}  // namespace brigade
