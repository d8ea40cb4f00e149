#include "core/cpu/gemm_in_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>

#include "core/cpu/blas_private.h"
#include "core/cpu/onednn_private.h"
#include "core/cpu/vectorized_private.h"
#include "core/runtime/context.h"
#include "core/tensor.h"

namespace brigade {
namespace {

/// part[i] = bf16(x[i]) and rest[i] = x[i] - part[i], which is exact.
void take_part(std::int64_t n, const float* x, BFloat16* part, float* rest) {
  vectorized([=] {
    for (std::int64_t i = 0; i < n; ++i) {
      part[i] = to_bfloat16(x[i]);
      const float left = x[i] - to_float(part[i]);
      rest[i] = std::abs(left) <= std::numeric_limits<float>::max() ? left : 0.0F;  // not ∞ - ∞
    }
  });
}

/// Which part of a and of b each product takes, the smallest products first: all of these for 3
/// parts, the last three for 2, the last for 1.
constexpr std::array kPartsOfA{0, 1, 2, 0, 1, 0};
constexpr std::array kPartsOfB{2, 1, 0, 1, 0, 0};

/// [order, n]: part order[0] of all numbers, part order[1] of all, ...
Tensor split(Stream& s, std::int64_t n, const float* x, std::span<const int> order) {
  constexpr std::int64_t kBlock = 2048;  // what is left of it stays in the first-level cache
  std::array<std::array<float, kBlock>, 2> rests;
  const int last = std::ranges::max(order);
  Tensor result = Tensor::empty({std::ssize(order), n}, DType::bf16);
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, n - begin);
    const float* from = x + begin;
    for (int p = 0; p <= last; ++p) {
      const auto first = std::ranges::find(order, p);
      BFloat16* part = result.data<BFloat16>() + (first - order.begin()) * n + begin;
      float* rest = rests.at(static_cast<std::size_t>(p % 2)).data();
      if (p < last) {
        take_part(count, from, part, rest);
      } else {
        CpuKernels::narrow(s, count, from, part);
      }
      from = rest;
      for (auto again = first + 1; again != order.end(); ++again) {
        if (*again == p) {
          std::copy_n(part, count, part + (again - first) * n);
        }
      }
    }
  }
  return result;
}

}  // namespace

int parts_of_floats(std::int64_t m, std::int64_t n) {
  const MatmulPrecision precision = Context::current().matmul_precision();
  const bool pays = precision != MatmulPrecision::highest && std::min(m, n) >= kLeastExtentInParts;
  const std::string_view unit = pays && use_onednn() ? onednn::bf16_unit() : "";
  return unit.empty() ? 0 : precision == MatmulPrecision::medium ? 1 : unit == "AMX" ? 2 : 0;
}

void gemm_in_parts(Stream& s, int parts, const GemmArgs<float>& args) {
  const auto& [transpose_a, transpose_b, m, n, k, a, b, c, scale] = args;
  const auto count = static_cast<std::size_t>(parts * (parts + 1) / 2);
  const auto of_a = std::span(kPartsOfA).last(count);
  const auto of_b = std::span(kPartsOfB).last(count);
  if (transpose_a && !transpose_b) {  // a [k, m], b [k, n]: parts below each other are a larger k
    const Tensor a_parts = split(s, m * k, a, of_a);
    const Tensor b_parts = split(s, k * n, b, of_b);
    CpuProducts<float>::gemm<BFloat16>(
        s, {true, false, m, n, k * std::ssize(of_a), a_parts.data<BFloat16>(),
            b_parts.data<BFloat16>(), c, scale});
    return;
  }
  constexpr std::array kEach{0, 1, 2};
  const auto each = std::span(kEach).first(static_cast<std::size_t>(parts));
  const Tensor a_parts = split(s, m * k, a, each);
  const Tensor b_parts = split(s, k * n, b, each);
  Scale next = scale;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    CpuProducts<float>::gemm<BFloat16>(
        s, {transpose_a, transpose_b, m, n, k, a_parts.data<BFloat16>() + of_a[i] * m * k,
            b_parts.data<BFloat16>() + of_b[i] * k * n, c, next});
    next.beta = 1.0;
  }
}

}  // namespace brigade
