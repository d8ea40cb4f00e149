#include <algorithm>

#include "core/ops.h"
#include "core/ops_private.h"
#include "core/strides_private.h"

namespace brigade::ops {
namespace {

/// Extent `dim` of a shape that is filled up with 1 at its front until it has `rank` dimensions.
std::int64_t extent_of(const Shape& shape, std::size_t dim, std::size_t rank) {
  const std::size_t missing = rank - shape.rank();
  return dim < missing ? 1 : shape[dim - missing];
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
    BRIGADE_CHECK(in_a == in_b || in_a == 1 || in_b == 1,
                  "{}: expected shapes whose extents, from the last one on, are equal or 1, got {} "
                  "and {}; reshape one of them",
                  name_of(op), a, b);
    extents[dim] = in_a == 1 ? in_b : in_a;
  }
  return Shape(extents);
}

void binary(BinaryOp op, const Tensor& a, const Tensor& b, Scale scale, Tensor& y) {
  check_alike(name_of(op),
              {{"a", a}, {"b", b}, {"y", y, broadcast_shape(op, a.shape(), b.shape())}});
  const StridePair dims = merged(y.shape(), broadcast_strides(a.shape(), y.shape()),
                                 broadcast_strides(b.shape(), y.shape()));
  launch(a, [&]<class K, class T>(Stream& s) {
    K::binary(s, op, dims, a.data<T>(), b.data<T>(), scale, y.data<T>());
  });
}

}  // namespace brigade::ops
