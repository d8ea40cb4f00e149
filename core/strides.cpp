#include "core/strides_private.h"

namespace brigade::ops {

Strides strides_of(const Shape& shape) {
  Strides strides{};
  std::int64_t stride = 1;
  for (std::size_t dim = shape.rank(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= shape[dim];
  }
  return strides;
}

Strides broadcast_strides(const Shape& shape, const Shape& to) {
  const Strides own = strides_of(shape);
  const std::size_t missing = to.rank() - shape.rank();
  Strides strides{};
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
    strides[missing + dim] = shape[dim] == 1 ? 0 : own[dim];
  }
  return strides;
}

StridePair merged(const Shape& shape, const Strides& a, const Strides& b) {
  StridePair pair;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
    const std::int64_t extent = shape[dim];
    const std::size_t last = pair.rank - 1;
    const bool continues = pair.extents[last] == 1 || (pair.a_strides[last] == a[dim] * extent &&
                                                       pair.b_strides[last] == b[dim] * extent);
    if (extent != 1) {
      const std::size_t place = continues ? last : pair.rank++;
      pair.extents[place] = continues ? pair.extents[last] * extent : extent;
      pair.a_strides[place] = a[dim];
      pair.b_strides[place] = b[dim];
    }
  }
  return pair;
}

}  // namespace brigade::ops
