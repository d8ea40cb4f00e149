#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "core/half.h"

namespace brigade {

/// f32 is what training uses. f64 exists for finite-difference checks, u8 and i64 for data and
/// labels, f16 and bf16 for storage and for the wire (core/half.h), bf16 as factors of products
/// that are added up in f32.
enum class DType : std::uint8_t { f32, f64, u8, i64, f16, bf16 };

std::size_t size_of(DType dtype);
std::ostream& operator<<(std::ostream& out, DType dtype);

template <class T>
inline constexpr DType kDTypeOf = [] {
  if constexpr (std::is_same_v<T, float>) {
    return DType::f32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::f64;
  } else if constexpr (std::is_same_v<T, std::uint8_t>) {
    return DType::u8;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return DType::i64;
  } else if constexpr (std::is_same_v<T, Half>) {
    return DType::f16;
  } else {
    static_assert(std::is_same_v<T, BFloat16>, "no DType for this type");
    return DType::bf16;
  }
}();

/// Calls fn.template operator()<float>() or <double>(); Error for the other types.
template <class Fn>
decltype(auto) dispatch_float(DType dtype, Fn&& fn) {
  BRIGADE_CHECK(dtype == DType::f32 || dtype == DType::f64, "expected a f32 or f64 tensor, got ",
                dtype);
  if (dtype == DType::f32) {
    return std::forward<Fn>(fn).template operator()<float>();
  }
  return std::forward<Fn>(fn).template operator()<double>();
}

/// Calls fn.template operator()<Half>() or <BFloat16>(); Error for the other types.
template <class Fn>
decltype(auto) dispatch_half(DType dtype, Fn&& fn) {
  BRIGADE_CHECK(dtype == DType::f16 || dtype == DType::bf16, "expected a f16 or bf16 tensor, got ",
                dtype);
  if (dtype == DType::f16) {
    return std::forward<Fn>(fn).template operator()<Half>();
  }
  return std::forward<Fn>(fn).template operator()<BFloat16>();
}

}  // namespace brigade
