#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <type_traits>
#include <utility>

#include "core/error.h"

namespace brigade {

/// f32 is what training uses. f64 exists for finite-difference checks, u8 and i64 for data and
/// labels.
enum class DType : std::uint8_t { f32, f64, u8, i64 };

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
  } else {
    static_assert(std::is_same_v<T, std::int64_t>, "no DType for this type");
    return DType::i64;
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

}  // namespace brigade
