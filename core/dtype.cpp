#include "core/dtype.h"

#include <array>
#include <ostream>

namespace brigade {

std::size_t size_of(DType dtype) {
  constexpr std::array<std::size_t, 6> kSizes{4, 8, 1, 8, 2, 2};
  return kSizes.at(static_cast<std::size_t>(dtype));
}

std::ostream& operator<<(std::ostream& out, DType dtype) {
  constexpr std::array<const char*, 6> kNames{"f32", "f64", "u8", "i64", "f16", "bf16"};
  return out << kNames.at(static_cast<std::size_t>(dtype));
}

}  // namespace brigade
