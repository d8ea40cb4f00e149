#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>

#include "core/format.h"

namespace brigade {

/// Extents of a contiguous row-major tensor, at most four. A scalar has rank 0 and one element.
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents);
  explicit Shape(std::span<const std::int64_t> extents);

  std::size_t rank() const { return rank_; }
  std::int64_t operator[](std::size_t dim) const;
  std::int64_t numel() const;
  std::span<const std::int64_t> extents() const { return {extents_.data(), rank_}; }

  /// The same shape with extent `dim` replaced.
  Shape with_extent(std::size_t dim, std::int64_t extent) const;

  /// Dimension `dim` counted from 0; -1 is the last. Error of function `who` if there is no such
  /// dimension.
  std::size_t wrap_dim(const char* who, std::int64_t dim) const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  std::size_t rank_ = 0;
};

/// `[2, -1]`: also of what is no shape.
std::string text_of(std::span<const std::int64_t> extents);

/// `[32, 500]`, `[]` for a scalar.
std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace brigade

template <>
struct fmt::formatter<brigade::Shape> : brigade::StreamFormatter {};
