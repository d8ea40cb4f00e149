#pragma once

#include "core/kernels.h"

namespace brigade {

/// The least m and n for which splitting f32 factors pays: below, rounding the large factor takes
/// about as long as the faster product saves (tests/bench/GEMMS.md).
constexpr std::int64_t kLeastExtentInParts = 32;

/// How many bf16 numbers, added up, stand for each f32 factor of an [m, n] product on this thread:
/// 1 for MatmulPrecision::medium, 2 for high, or 0: floats are multiplied. It is 0 for highest,
/// with several threads, without a unit for bf16 that oneDNN uses, and below that extent.
/// It is also 0 for high on AVX512_BF16, where three products take longer than one of floats.
int parts_of_floats(std::int64_t m, std::int64_t n);

/// A product of floats as a sum of products of bf16 numbers. Each float x is split into parts
/// x₁ = bf16(x), x₂ = bf16(x - x₁), x₃ = bf16(x - x₁ - x₂). Products of parts i and j count if
/// i + j <= parts + 1 and are added in f32, the smallest first (Henry, Tang, Heinecke 2019,
/// arXiv:1904.06376, section II).
///
///   parts   products   error of Σ a b, besides that of adding in f32, at most
///     1        1       2⁻⁷ Σ |a b|
///     2        3       3 · 2⁻¹⁶ Σ |a b|   (TF32: 2⁻¹⁰)
///     3        6       2⁻²² Σ |a b|: as exact as f32 from a few terms on
///
/// The sum over k of aᵀ b, as in dW, is one product with a k that is 3 or 6 times as large, and as
/// many copies of a and b. Else the products are added up in c.
///
/// No CPU that was timed gains by three parts, so only a test asks for them.
/// Parts below 2⁻¹²⁶ become 0, and numbers from 3.396e38 on become infinity. With 2 or 3 parts an
/// infinite factor gives NaN where f32 gives infinity (∞ · 0). The scale is applied as gemm does.
void gemm_in_parts(Stream& s, int parts, const GemmArgs<float>& args);

}  // namespace brigade
