#include <type_traits>

#include "core/cpu/blas_private.h"
#include "core/cpu/gemm_in_parts.h"
#include "core/cpu/onednn_private.h"
#include "core/error.h"
#include "core/kernels.h"
#include "core/tensor.h"

namespace brigade {
namespace {

/// BLAS counts in int.
int to_int(std::int64_t extent) {
  BRIGADE_CHECK(extent <= 0x7fffffff, "gemm: extent {} exceeds BLAS's 32-bit limit", extent);
  return static_cast<int>(extent);
}

/// `n` bf16 numbers as floats.
Tensor widened(Stream& s, const BFloat16* x, std::int64_t n) {
  Tensor floats = Tensor::empty({n});
  CpuKernels::widen(s, n, x, {}, floats.data<float>());
  return floats;
}

/// Where OpenBLAS takes less time than oneDNN, most batches considered (tests/bench/GEMMS.md).
template <class T>
bool is_for_openblas(const GemmArgs<T>& args) {
  const auto& [transpose_a, transpose_b, m, n, k, a, b, c, scale] = args;
  // Short rows, added to a large matrix, as a weight's gradient from a small batch is.
  if (scale.beta != 0.0 && k < 128 && m >= 1024 && n >= 1024) {
    return true;
  }
  // With AVX2 oneDNN is slow where rows are 1 KiB or multiples of 2 KiB apart, as if these competed
  // for the same places in the first-level cache.
  if (onednn::has_avx512() || transpose_b) {
    return false;
  }
  const bool weight_gradient = transpose_a;  // dyᵀ x; else dy W
  return weight_gradient
             ? m <= 512 && n <= 512 && m % 256 == 0 && n % 256 == 0 && k * n >= 128 * 256
             : n % 512 == 0;
}

template <class T>
void multiply(Stream& s, const GemmArgs<T>& args) {
  if (args.m == 0 || args.n == 0) {
    return;
  }
  if (args.k == 0) {  // an empty sum; BLAS libraries disagree on whether beta still applies
    if (args.scale.beta == 0.0) {
      CpuElementwise<T>::fill(s, args.m * args.n, T{0}, args.c);
    } else {
      CpuElementwise<T>::axpby(s, args.m * args.n, args.c, {.alpha = args.scale.beta, .beta = 0.0},
                               args.c);
    }
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (use_onednn() && !is_for_openblas(args)) {
      onednn::gemm(args);
      return;
    }
  }
  const int m = to_int(args.m);
  const int n = to_int(args.n);
  const int k = to_int(args.k);
  const auto run = [&](auto* function) {
    function(CblasRowMajor, args.transpose_a ? CblasTrans : CblasNoTrans,
             args.transpose_b ? CblasTrans : CblasNoTrans, m, n, k,
             static_cast<T>(args.scale.alpha), args.a, args.transpose_a ? m : k, args.b,
             args.transpose_b ? k : n, static_cast<T>(args.scale.beta), args.c, n);
  };
  if constexpr (std::is_same_v<T, float>) {
    run(blas().sgemm);
  } else {
    run(blas().dgemm);
  }
}

}  // namespace

template <class T>
template <class F>
void CpuProducts<T>::gemm(Stream& s, const GemmArgs<T, F>& args) {
  if constexpr (std::is_same_v<F, BFloat16>) {
    if (use_onednn() && onednn::gemm_bf16(args)) {
      return;
    }
    // The product of two bf16 numbers is exact in f32, so widening the factors gives what a bf16
    // unit would, up to the order and rounding of its additions.
    const Tensor a = widened(s, args.a, args.m * args.k);
    const Tensor b = widened(s, args.b, args.k * args.n);
    multiply<float>(s, {args.transpose_a, args.transpose_b, args.m, args.n, args.k, a.data<float>(),
                        b.data<float>(), args.c, args.scale});
  } else if constexpr (std::is_same_v<T, float>) {
    if (const int parts = parts_of_floats(args.m, args.n); parts > 0) {
      gemm_in_parts(s, parts, args);
    } else {
      multiply<float>(s, args);
    }
  } else {
    multiply<T>(s, args);
  }
}

template decltype(CpuProducts<float>::gemm<float>) CpuProducts<float>::gemm<float>;
template decltype(CpuProducts<float>::gemm<BFloat16>) CpuProducts<float>::gemm<BFloat16>;
template decltype(CpuProducts<double>::gemm<double>) CpuProducts<double>::gemm<double>;

}  // namespace brigade
