#include "core/shape.h"

#include <algorithm>
#include <ostream>

#include "core/error.h"

namespace brigade {

Shape::Shape(std::initializer_list<std::int64_t> extents)
    : Shape(std::span(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const std::int64_t> extents) : rank_(extents.size()) {
  BRIGADE_CHECK(rank_ <= kMaxRank, "shape: expected at most {} dimensions, got {}", kMaxRank,
                rank_);
  constexpr std::int64_t kMostElements = std::int64_t{1} << 58U;  // whose bytes 64 bits count
  std::int64_t elements = 1;
  for (std::size_t dim = 0; dim < rank_; ++dim) {
    BRIGADE_CHECK(extents[dim] >= 0, "shape: negative extent {} in dimension {}", extents[dim],
                  dim);
    const bool overflow =
        __builtin_mul_overflow(elements, std::max<std::int64_t>(extents[dim], 1), &elements);
    BRIGADE_CHECK(!overflow && elements <= kMostElements,
                  "shape: more than 2^58 elements in the first {} dimensions", dim + 1);
    extents_[dim] = extents[dim];
  }
}

std::int64_t Shape::operator[](std::size_t dim) const {
  BRIGADE_CHECK(dim < rank_, "shape: dimension {} asked of {}", dim, *this);
  return extents_[dim];
}

std::int64_t Shape::numel() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : extents()) {
    count *= extent;
  }
  return count;
}

Shape Shape::with_extent(std::size_t dim, std::int64_t extent) const {
  static_cast<void>((*this)[dim]);  // an Error if there is none
  std::array<std::int64_t, kMaxRank> extents = extents_;
  extents[dim] = extent;
  return Shape(std::span(extents).first(rank_));
}

std::size_t Shape::wrap_dim(const char* who, std::int64_t dim) const {
  const auto rank = static_cast<std::int64_t>(rank_);
  BRIGADE_CHECK(dim >= -rank && dim < rank, "{}: expected a dimension of {}, {} to {}, got {}", who,
                *this, -rank, rank - 1, dim);
  return static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
}

std::string text_of(std::span<const std::int64_t> extents) {
  std::string text;
  for (const std::int64_t extent : extents) {
    text += (text.empty() ? "" : ", ") + std::to_string(extent);
  }
  return "[" + text + "]";
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << text_of(shape.extents());
}

}  // namespace brigade
