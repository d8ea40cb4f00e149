#include "core/ops_elementwise.h"

#include <algorithm>

#include "core/ops_private.h"

namespace brigade::ops {
namespace {

/// Extent `dim` of a shape that is filled up with 1 at its front until it has `rank` dimensions.
std::int64_t extent_of(const Shape& shape, std::size_t dim, std::size_t rank) {
  const std::size_t missing = rank - shape.rank();
  return dim < missing ? 1 : shape[dim - missing];
}

/// Merges neighbouring dimensions that both operands walk in one stride. So equal shapes, and a
/// scalar with any shape, become one dimension, and a row or a column with a matrix two.
Broadcast broadcast(const Shape& a, const Shape& b, const Shape& y) {
  Broadcast reversed;  // the last dimension first
  std::size_t rank = 0;
  std::int64_t a_numel = 1;  // of the dimensions so far: the stride of the next one
  std::int64_t b_numel = 1;
  for (std::size_t dim = y.rank(); dim-- > 0;) {
    const std::int64_t extent = y[dim];
    const std::int64_t a_stride = extent_of(a, dim, y.rank()) == 1 ? 0 : a_numel;
    const std::int64_t b_stride = extent_of(b, dim, y.rank()) == 1 ? 0 : b_numel;
    a_numel *= extent_of(a, dim, y.rank());
    b_numel *= extent_of(b, dim, y.rank());
    if (extent == 1) {
      continue;
    }
    const std::size_t last = rank - 1;
    if (rank > 0 && a_stride == reversed.extents[last] * reversed.a_strides[last] &&
        b_stride == reversed.extents[last] * reversed.b_strides[last]) {
      reversed.extents[last] *= extent;
      continue;
    }
    reversed.extents[rank] = extent;
    reversed.a_strides[rank] = a_stride;
    reversed.b_strides[rank] = b_stride;
    ++rank;
  }
  reversed.rank = std::max<std::size_t>(rank, 1);
  std::reverse(reversed.extents, reversed.extents + reversed.rank);
  std::reverse(reversed.a_strides, reversed.a_strides + reversed.rank);
  std::reverse(reversed.b_strides, reversed.b_strides + reversed.rank);
  return reversed;
}

}  // namespace

void unary(UnaryOp op, const Tensor& x, Tensor& y) {
  check_same("unary", {{"x", x}, {"y", y}});
  launch(x, [&]<class K, class T>(Stream& s) {
    K::unary(s, op, x.numel(), x.data<T>(), y.data<T>());
  });
}

void unary_backward(UnaryOp op, const Tensor& dy, const Tensor& kept, Scale scale, Tensor& dx) {
  check_same("unary_backward", {{"dy", dy}, {"kept", kept}, {"dx", dx}});
  launch(dy, [&]<class K, class T>(Stream& s) {
    K::unary_backward(s, op, dy.numel(), dy.data<T>(), kept.data<T>(), scale, dx.data<T>());
  });
}

const char* name_of(BinaryOp op) {
  static constexpr const char* kNames[] = {"add", "sub", "mul", "div"};
  return kNames[static_cast<std::size_t>(op)];
}

Shape broadcast_shape(BinaryOp op, const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.rank(), b.rank());
  std::vector<std::int64_t> extents(rank);
  for (std::size_t dim = 0; dim < rank; ++dim) {
    const std::int64_t in_a = extent_of(a, dim, rank);
    const std::int64_t in_b = extent_of(b, dim, rank);
    BRIGADE_CHECK(in_a == in_b || in_a == 1 || in_b == 1, name_of(op),
                  ": expected shapes whose extents, from the last one on, are equal or 1, got ", a,
                  " and ", b, "; reshape one of them");
    extents[dim] = in_a == 1 ? in_b : in_a;
  }
  return Shape(extents);
}

void binary(BinaryOp op, const Tensor& a, const Tensor& b, Scale scale, Tensor& y) {
  check_alike(name_of(op),
              {{"a", a}, {"b", b}, {"y", y, broadcast_shape(op, a.shape(), b.shape())}});
  launch(a, [&]<class K, class T>(Stream& s) {
    K::binary(s, op, broadcast(a.shape(), b.shape(), y.shape()), a.data<T>(), b.data<T>(), scale,
              y.data<T>());
  });
}

}  // namespace brigade::ops
