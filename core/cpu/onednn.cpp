#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <dnnl.hpp>
#include <type_traits>

#include "core/cpu/onednn_private.h"
#include "core/cpu/onednn_products_private.h"
#include "core/cpu/vectorized_private.h"
#include "core/error.h"
#include "core/tensor.h"

namespace brigade::onednn {
namespace {

template <class F>
constexpr auto kType =
    std::is_same_v<F, float> ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;

/// Most rows of W for which W xᵀ is computed at a time with bf16: 4096 at once take 1.5 times as
/// long (tests/bench/GEMMS.md). With floats they take as long.
constexpr std::int64_t kBf16Strip = 512;

/// Weights with this many elements or more take oneDNN longer to copy than AMX to multiply.
/// Computed, not measured (tests/bench/GEMMS.md), as all choices for AMX.
constexpr std::int64_t kLargeOnAmx = std::int64_t{1024} * 1024;

/// Whether yᵀ = W xᵀ is computed instead of y = x Wᵀ, and transposed afterwards. Before it
/// multiplies, the library copies the right factor into the order in which it reads it. A small
/// batch hardly uses a copy of all of W, while transposing y is next to nothing; for which batches,
/// is measured, for AMX computed (tests/bench/GEMMS.md).
template <class F>
bool is_turned(std::int64_t batch, std::int64_t in, std::int64_t out) {
  if constexpr (std::is_same_v<F, BFloat16>) {
    if (bf16_unit() == "AMX") {
      return batch >= 32 && batch <= std::min(in, out / 2) && in * out >= kLargeOnAmx;
    }
    return (batch == 32 || batch == 64) && out >= 16 * batch;
  } else {
    return (has_avx512() ? batch >= 32 : batch >= 8 && batch <= 32) && out >= 16 * batch;
  }
}

/// y[r, c] = finish(x[c, r], c) for y [rows, cols], in squares that fit into the first-level cache.
template <class T, class Finish>
void transpose(std::int64_t rows, std::int64_t cols, const T* x, T* y, const Finish& finish) {
  constexpr std::int64_t kSide = 16;
  vectorized([=] {
    for (std::int64_t col0 = 0; col0 < cols; col0 += kSide) {
      const std::int64_t col1 = std::min(cols, col0 + kSide);
      for (std::int64_t row0 = 0; row0 < rows; row0 += kSide) {
        const std::int64_t row1 = std::min(rows, row0 + kSide);
        for (std::int64_t row = row0; row < row1; ++row) {
          for (std::int64_t col = col0; col < col1; ++col) {
            y[row * cols + col] = finish(x[col * rows + row], col);
          }
        }
      }
    }
  });
}

/// Reads W, a number of every cache line, if the second-level cache has room for it beside the
/// library's copy. In order memory is read ahead of the program; the library, which copies W with
/// its rows as columns, reads it in strides and waits for every line (tests/bench/GEMMS.md).
void fetch(const float* w, std::int64_t numel) {
  static const auto second_level_cache = static_cast<std::int64_t>(sysconf(_SC_LEVEL2_CACHE_SIZE));
  constexpr std::int64_t kLine = 64 / sizeof(float);
  if (numel * static_cast<std::int64_t>(sizeof(float)) > second_level_cache / 2) {
    return;
  }
  for (std::int64_t i = 0; i < numel; i += kLine) {
    static_cast<void>(*static_cast<const volatile float*>(w + i));  // volatile: is not left out
  }
}

/// y = x Wᵀ + b, where b may be null. Returns false and leaves y as it was if oneDNN has no code
/// for bf16 factors that beats its code for floats.
template <class F>
bool multiply_by_weight(std::int64_t batch, std::int64_t in, std::int64_t out, const F* x,
                        const F* w, const float* b, float* y) {
  Products& products = Products::of_this_thread();
  if (!is_turned<F>(batch, in, out)) {
    if constexpr (std::is_same_v<F, float>) {
      fetch(w, in * out);
    }
    return products.multiply({kType<F>, false, true, batch, out, in, b != nullptr}, x, w, b, y);
  }
  const Tensor transposed = Tensor::empty({out, batch});
  // Strips of the same size: for less than 16 rows oneDNN has no code for AMX.
  const std::int64_t strips = std::is_same_v<F, float> ? 1 : (out - 1) / kBf16Strip + 1;
  const std::int64_t strip = (out - 1) / strips + 1;
  for (std::int64_t row = 0; row < out; row += strip) {
    const std::int64_t rows = std::min(strip, out - row);
    if (!products.multiply({kType<F>, false, true, rows, batch, in}, w + row * in, x, nullptr,
                           transposed.data<float>() + row * batch)) {
      return false;
    }
  }
  transpose(batch, out, transposed.data<float>(), y,
            [b](float sum, std::int64_t col) { return sum + (b != nullptr ? b[col] : 0.0F); });
  return true;
}

/// Whether the library generates code for that instruction set: AVX-512's bits include AVX2's.
bool has(dnnl::cpu_isa wanted) {
  static const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (~isa & static_cast<unsigned>(wanted)) == 0;
}

}  // namespace

void linear(std::int64_t batch, std::int64_t in, std::int64_t out, const float* x, const float* w,
            const float* b, float* y) {
  BRIGADE_CHECK(multiply_by_weight(batch, in, out, x, w, b, y),
                "matrix product: oneDNN refuses x [{}, {}], w [{}, {}]", batch, in, out, in);
}

bool available() {
  return has(dnnl::cpu_isa::avx2);
}

bool has_avx512() {
  return has(dnnl::cpu_isa::avx512_core);
}

std::string description() {
  const dnnl_version_t* version = dnnl_version();
  return available()
             ? fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch)
             : std::string();
}

// Two functions, by measurement (tests/bench/GEMMS.md): with AVX-512 the primitive is ahead of
// dnnl_sgemm by 1.5 times at 8x1024x32 for x wᵀ, behind it for the other two products of a layer.
// With AVX2 it calls the same kernels.
void gemm(const GemmArgs<float>& args) {
  const auto& [transpose_a, transpose_b, m, n, k, a, b, c, scale] = args;
  if (!transpose_a && transpose_b && scale.alpha == 1.0 && scale.beta == 0.0) {
    linear(m, k, n, a, b, nullptr, c);
    return;
  }
  Products::of_this_thread();  // limits OpenMP to this thread
  const dnnl_status_t status = dnnl_sgemm(
      transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, static_cast<float>(scale.alpha), a,
      transpose_a ? m : k, b, transpose_b ? k : n, static_cast<float>(scale.beta), c, n);
  BRIGADE_CHECK(status == dnnl_success, "gemm: dnnl_sgemm failed with status {}", status);
}

bool gemm_bf16(const GemmArgs<float, BFloat16>& args) {
  const auto& [transpose_a, transpose_b, m, n, k, a, b, c, scale] = args;
  const bool finite = std::isfinite(scale.alpha) && std::isfinite(scale.beta);  // NaN has no order
  if (bf16_unit().empty() || m == 0 || n == 0 || k == 0 || !finite) {
    return false;
  }
  if (!transpose_a && transpose_b && scale.alpha == 1.0 && scale.beta == 0.0) {
    return multiply_by_weight(m, k, n, a, b, nullptr, c);
  }
  // oneDNN's code for AMX takes far longer for such a product if it must transpose a itself.
  if (transpose_a && !transpose_b && k >= 128 && m * n >= kLargeOnAmx && bf16_unit() == "AMX") {
    const Tensor rows_of_a = Tensor::empty({m, k}, DType::bf16);
    transpose(m, k, a, rows_of_a.data<BFloat16>(), [](BFloat16 x, std::int64_t) { return x; });
    return gemm_bf16({false, false, m, n, k, rows_of_a.data<BFloat16>(), b, c, scale});
  }
  return Products::of_this_thread().multiply(
      {kType<BFloat16>, transpose_a, transpose_b, m, n, k, /*bias=*/false,
       static_cast<float>(scale.alpha), static_cast<float>(scale.beta)},
      a, b, nullptr, c);
}

}  // namespace brigade::onednn
