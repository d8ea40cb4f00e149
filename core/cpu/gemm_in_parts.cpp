#include "core/cpu/gemm_in_parts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "core/cpu/blas_private.h"
#include "core/cpu/onednn_private.h"
#include "core/cpu/vectorized_private.h"
#include "core/runtime/context.h"
#include "core/tensor.h"

namespace brigade {
namespace {

/// [parts, n]: x₁, x₂, ... of all numbers.
Tensor split(Stream& s, std::int64_t n, const float* x, int parts) {
  Tensor result = Tensor::empty({parts, n}, DType::bf16);
  const Tensor rest_memory = Tensor::empty({parts > 1 ? n : 0});
  float* rest = rest_memory.data<float>();
  for (int p = 0; p < parts; ++p) {
    BFloat16* part = result.data<BFloat16>() + p * n;
    const float* from = p == 0 ? x : rest;
    CpuKernels::narrow(s, n, from, part);
    if (p + 1 < parts) {
      vectorized([=] {
        for (std::int64_t i = 0; i < n; ++i) {
          const float left = from[i] - to_float(part[i]);
          rest[i] = std::abs(left) <= std::numeric_limits<float>::max() ? left : 0.0F;  // not ∞ - ∞
        }
      });
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
  const Tensor a_parts = split(s, m * k, a, parts);
  const Tensor b_parts = split(s, k * n, b, parts);
  Scale next = scale;
  for (int sum = parts - 1; sum >= 0; --sum) {
    for (int i = 0; i <= sum; ++i) {
      CpuProducts<float>::gemm<BFloat16>(
          s, {transpose_a, transpose_b, m, n, k, a_parts.data<BFloat16>() + i * m * k,
              b_parts.data<BFloat16>() + (sum - i) * k * n, c, next});
      next.beta = 1.0;
    }
  }
}

}  // namespace brigade
