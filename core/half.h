#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace brigade {

/// Numbers in 16 bits, for storage, for the wire, and bf16 as factors of matrix products summed in
/// float (--dtype bf16). Everything else widens them to float, computes, and narrows again.
///
///              sign, exponent, fraction    largest     least above 0   precision
///   Half            1, 5, 10               65504       2^-24           11 bits
///   BFloat16        1, 8, 7                as float    as float        8 bits
///
/// Both are narrowed to the nearest number, and to the one with an even last bit when two are
/// equally near. What is too large becomes infinite; NaN stays NaN, but not which one.
struct Half {
  std::uint16_t bits = 0;
  bool operator==(const Half&) const = default;
};
struct BFloat16 {
  std::uint16_t bits = 0;
  bool operator==(const BFloat16&) const = default;
};

/// condition ? a : b without a branch. Written with ?:, the floating-point operations below would
/// be moved into the branch that needs them and could not become vector instructions.
constexpr std::uint32_t select(bool condition, std::uint32_t a, std::uint32_t b) {
  const std::uint32_t mask = 0U - static_cast<std::uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

/// Adding 2^(e+13) to a float of exponent e leaves the sum with a last place of 2^(e-10), which is
/// half's: the hardware's own addition does the rounding, and the difference of the two bit
/// patterns counts the steps of that size. Below 2^-14 half's steps stay as large as they are
/// there, so e goes no lower.
constexpr Half to_half(float x) {
  constexpr std::uint32_t kLeast = 127 - 14;  // exponents as a float's field has them
  constexpr std::uint32_t kTooLarge = (127 + 16) << 23;
  constexpr std::uint32_t kInfinity = 0x7c00;
  constexpr std::uint32_t kNaN = 0x7fff;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t size = bits & 0x7fffffffU;
  const std::uint32_t exponent = select(size >> 23U < kLeast, kLeast, size >> 23U);
  const std::uint32_t anchor = (exponent + 13) << 23U;
  const float sum = std::bit_cast<float>(size) + std::bit_cast<float>(anchor);
  const std::uint32_t steps = std::bit_cast<std::uint32_t>(sum) - anchor;
  // All but a subnormal's steps include 1024 for the leading 1 that is not stored, which moves the
  // exponent up by one; so does, when it has to, a fraction rounded up to 2048 steps.
  const std::uint32_t rounded = ((exponent - kLeast) << 10U) + steps;
  const std::uint32_t finite_or_not = select(size >= kTooLarge, kInfinity, rounded);
  const std::uint32_t result = select(size > 0x7f800000U, kNaN, finite_or_not);
  return {static_cast<std::uint16_t>(((bits >> 16U) & 0x8000U) | result)};
}

/// BFloat16 is the upper half of a float. Half of its last place, less one if that is even, carries
/// into it exactly when it has to be rounded up.
constexpr BFloat16 to_bfloat16(float x) {
  constexpr std::uint32_t kNaN = 0x7fff0000;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t odd = (bits >> 16U) & 1U;
  const std::uint32_t rounded = select(x != x, kNaN, bits + 0x7fffU + odd);
  return {static_cast<std::uint16_t>(rounded >> 16U)};
}

/// Exact.
constexpr float to_float(Half x) {
  const std::uint32_t sign = (x.bits & 0x8000U) << 16U;
  const std::uint32_t exponent = x.bits & 0x7c00U;
  const std::uint32_t moved = (x.bits & 0x7fffU) << 13U;  // to the places of a float's fields
  constexpr std::uint32_t kNormal = (127U - 15U) << 23U;  // from half's exponent bias to float's
  constexpr std::uint32_t kSpecial = (255U - 31U) << 23U;
  const float subnormal = static_cast<float>(x.bits & 0x03ff) * 0x1p-24F;
  const std::uint32_t normal = moved + select(exponent == 0x7c00U, kSpecial, kNormal);
  return std::bit_cast<float>(
      sign | select(exponent == 0, std::bit_cast<std::uint32_t>(subnormal), normal));
}

/// Exact.
constexpr float to_float(BFloat16 x) {
  return std::bit_cast<float>(std::uint32_t{x.bits} << 16U);
}

/// For kernels of T or 16 bits: a number of 16 bits as a float, any other as it is, and back.
template <class F>
constexpr auto widened(F x) {
  if constexpr (std::is_same_v<F, Half> || std::is_same_v<F, BFloat16>) {
    return to_float(x);
  } else {
    return x;
  }
}
template <class F, class T>
constexpr F narrowed(T x) {
  if constexpr (std::is_same_v<F, Half>) {
    return to_half(x);
  } else if constexpr (std::is_same_v<F, BFloat16>) {
    return to_bfloat16(x);
  } else {
    return x;
  }
}

}  // namespace brigade
