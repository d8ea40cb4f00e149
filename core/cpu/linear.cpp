#include <type_traits>

#include "core/arithmetic.h"
#include "core/cpu/blas_private.h"
#include "core/cpu/gemm_in_parts.h"
#include "core/cpu/onednn_private.h"
#include "core/cpu/vectorized_private.h"
#include "core/kernels.h"

namespace brigade {
namespace {

/// fn(i, col) for each element i of a matrix [rows, cols].
template <class Fn>
void for_each_element(std::int64_t rows, std::int64_t cols, const Fn& fn) {
  vectorized([=] {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t col = 0; col < cols; ++col) {
        fn(row * cols + col, col);
      }
    }
  });
}

}  // namespace

template <class T>
template <class F>
void CpuProducts<T>::linear(Stream& s, const LinearArgs<T, F>& args) {
  const auto& [batch, in, out, x, w, b, activation, y, z] = args;
  const auto activate = [&s, &args, n = batch * out] {
    if (args.activation != Activation::none) {
      CpuElementwise<T>::unary(s, function_of(args.activation), n, args.sums(), args.y);
    }
  };
  if constexpr (std::is_same_v<F, float>) {
    const bool products_of_floats = use_onednn() && parts_of_floats(batch, out) == 0;
    if (products_of_floats && onednn::has_avx512() && batch > 0 && in > 0 && out > 0) {
      onednn::linear(batch, in, out, x, w, b, args.sums());
      activate();
      return;
    }
  }
  gemm(s, args.product());
  // Two loops, because one that wrote z and y would not be vectorised where both are one array.
  if (b == nullptr) {
    activate();
  } else if (activation == Activation::gelu) {
    for_each_element(batch, out, [b = b, y = y, z = z](std::int64_t i, std::int64_t col) {
      z[i] += b[col];
      y[i] = unary_value<UnaryOp::gelu>(z[i]);
    });
  } else {
    const bool rectify = activation == Activation::relu;
    for_each_element(batch, out, [=, b = b, y = y](std::int64_t i, std::int64_t col) {
      const T sum = y[i] + b[col];
      y[i] = rectify ? unary_value<UnaryOp::relu>(sum) : sum;
    });
  }
}

template decltype(CpuProducts<float>::linear<float>) CpuProducts<float>::linear<float>;
template decltype(CpuProducts<float>::linear<BFloat16>) CpuProducts<float>::linear<BFloat16>;
template decltype(CpuProducts<double>::linear<double>) CpuProducts<double>::linear<double>;

}  // namespace brigade
