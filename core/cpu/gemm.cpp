#include <type_traits>

#include "core/cpu/blas_private.h"
#include "core/cpu/onednn_private.h"
#include "core/error.h"
#include "core/kernels.h"

namespace brigade {
namespace {

/// BLAS counts in int.
int to_int(std::int64_t extent) {
  BRIGADE_CHECK(extent <= 0x7fffffff, "gemm: extent ", extent, " exceeds BLAS's 32-bit limit");
  return static_cast<int>(extent);
}

}  // namespace

template <class T>
void CpuKernels::gemm(Stream& s, const GemmArgs<T>& args) {
  if (args.m == 0 || args.n == 0) {
    return;
  }
  if (args.k == 0) {  // an empty sum; BLAS libraries disagree on whether beta still applies
    if (args.scale.beta == 0.0) {
      fill(s, args.m * args.n, T{0}, args.c);
    } else {
      axpby(s, args.m * args.n, args.c, {.alpha = 0.0, .beta = args.scale.beta}, args.c);
    }
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (use_onednn()) {
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

template <class T>
void CpuKernels::linear(Stream& s, std::int64_t batch, std::int64_t in, std::int64_t out,
                        const T* x, const T* w, const T* b, T* y) {
  // The bias goes first and the GEMM adds to it: y is in cache when the GEMM's last pass over it
  // writes it.
  if (b != nullptr) {
    for (std::int64_t row = 0; row < batch; ++row) {
      copy(s, y + row * out, b, static_cast<std::size_t>(out) * sizeof(T));
    }
  }
  gemm<T>(s, {.transpose_b = true,
              .m = batch,
              .n = out,
              .k = in,
              .a = x,
              .b = w,
              .c = y,
              .scale = {.alpha = 1.0, .beta = b != nullptr ? 1.0 : 0.0}});
}

template <class T>
void CpuKernels::column_sum(Stream& s, std::int64_t rows, std::int64_t cols, const T* x,
                            Scale scale, T* sums) {
  const T alpha = static_cast<T>(scale.alpha);
  const T beta = static_cast<T>(scale.beta);
  if (scale.beta == 0.0) {
    fill(s, cols, T{0}, sums);
  } else if (scale.beta != 1.0) {
    axpby(s, cols, sums, {.alpha = 0.0, .beta = beta}, sums);
  }
  for (std::int64_t row = 0; row < rows;
       ++row) {  // row by row: the inner loop is contiguous and vectorises
    const T* values = x + row * cols;
    for (std::int64_t col = 0; col < cols; ++col) {
      sums[col] += alpha * values[col];
    }
  }
}

template void CpuKernels::gemm(Stream&, const GemmArgs<float>&);
template void CpuKernels::gemm(Stream&, const GemmArgs<double>&);
template void CpuKernels::linear(Stream&, std::int64_t, std::int64_t, std::int64_t, const float*,
                                 const float*, const float*, float*);
template void CpuKernels::linear(Stream&, std::int64_t, std::int64_t, std::int64_t, const double*,
                                 const double*, const double*, double*);
template void CpuKernels::column_sum(Stream&, std::int64_t, std::int64_t, const float*, Scale,
                                     float*);
template void CpuKernels::column_sum(Stream&, std::int64_t, std::int64_t, const double*, Scale,
                                     double*);

}  // namespace brigade
