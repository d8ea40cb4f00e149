#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <utility>

#include "core/error.h"
#include "core/format.h"
#include "core/half.h"

namespace brigade {

/// f32 is what training uses. f64 exists for finite-difference checks, u8 and i64 for data and
/// labels, f16 and bf16 for storage and for the wire (core/half.h), bf16 as factors of products
/// that are added up in f32.
enum class DType : std::uint8_t { f32, f64, u8, i64, f16, bf16 };

std::size_t size_of(DType dtype);
std::ostream& operator<<(std::ostream& out, DType dtype);

}  // namespace brigade

template <>
struct fmt::formatter<brigade::DType> : brigade::StreamFormatter {};

namespace brigade {

template <class T>
struct NoDType;
template <class T>
inline constexpr DType kDTypeOf = NoDType<T>::value;  // incomplete: no DType for this type
template <>
inline constexpr DType kDTypeOf<float> = DType::f32;
template <>
inline constexpr DType kDTypeOf<double> = DType::f64;
template <>
inline constexpr DType kDTypeOf<std::uint8_t> = DType::u8;
template <>
inline constexpr DType kDTypeOf<std::int64_t> = DType::i64;
template <>
inline constexpr DType kDTypeOf<Half> = DType::f16;
template <>
inline constexpr DType kDTypeOf<BFloat16> = DType::bf16;

/// Calls fn.template operator()<A>() or <B>(), whichever `dtype` is; Error for the other types.
template <class A, class B, class Fn>
decltype(auto) dispatch_either(DType dtype, Fn&& fn) {
  BRIGADE_CHECK(dtype == kDTypeOf<A> || dtype == kDTypeOf<B>, "expected a {} or {} tensor, got {}",
                kDTypeOf<A>, kDTypeOf<B>, dtype);
  if (dtype == kDTypeOf<A>) {
    return std::forward<Fn>(fn).template operator()<A>();
  }
  return std::forward<Fn>(fn).template operator()<B>();
}

template <class Fn>
decltype(auto) dispatch_float(DType dtype, Fn&& fn) {
  return dispatch_either<float, double>(dtype, std::forward<Fn>(fn));
}

}  // namespace brigade
