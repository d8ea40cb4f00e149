#include "core/ops.h"
#include "core/ops_private.h"

namespace brigade::ops {
namespace {

void check_numel(const char* op, const char* name, const Tensor& tensor, std::int64_t numel) {
  BRIGADE_CHECK(tensor.numel() == numel, "{}: expected {} with {} elements, got {}", op, name,
                numel, tensor.shape());
}

/// The reductions that make `from` of `to`, the last dimensions first.
std::vector<ReduceShape> reductions(const Shape& from, const Shape& to) {
  const std::span<const std::int64_t> extents = from.extents();
  const std::size_t missing = from.rank() - to.rank();
  const auto is_one = [&](std::size_t dim) { return dim < missing || to[dim - missing] == 1; };
  std::vector<ReduceShape> result;
  std::int64_t inner = 1;
  for (std::size_t dim = from.rank(); dim > 0;) {
    std::int64_t n = 1;
    while (dim > 0 && is_one(dim - 1)) {
      n *= extents[--dim];
    }
    if (n != 1) {
      result.push_back({.outer = Shape(extents.first(dim)).numel(), .n = n, .inner = inner});
    }
    while (dim > 0 && !is_one(dim - 1)) {
      inner *= extents[--dim];
    }
  }
  return result;
}

}  // namespace

ReduceShape reduce_shape(const char* who, const Shape& shape, std::int64_t dim) {
  const Shape dims = shape.rank() == 0 ? Shape{1} : shape;
  const std::size_t at = dims.wrap_dim(who, dim);
  return {.outer = Shape(dims.extents().first(at)).numel(),
          .n = dims[at],
          .inner = Shape(dims.extents().subspan(at + 1)).numel()};
}

void reduce_sum(const Tensor& x, ReduceShape shape, Scale scale, Tensor& y) {
  check_alike("sum", {{"x", x}, {"y", y}});
  check_numel("sum", "x", x, shape.n * shape.outputs());
  check_numel("sum", "y", y, shape.outputs());
  launch(x, [&]<class K, class T>(Stream& s) {
    K::reduce_sum(s, shape, x.data<T>(), scale, y.data<T>());
  });
}

void reduce_max(const Tensor& x, ReduceShape shape, Tensor& y, Tensor& index) {
  check_alike("max", {{"x", x}, {"y", y}});
  check_numel("max", "x", x, shape.n * shape.outputs());
  check_numel("max", "y", y, shape.outputs());
  check_shape("max", "index", index, y.shape());
  BRIGADE_CHECK(shape.n > 0, "max: expected at least one element to choose from, got x {}",
                x.shape());
  launch(x, [&]<class K, class T>(Stream& s) {
    K::reduce_max(s, shape, x.data<T>(), y.data<T>(), index.data<std::int64_t>());
  });
}

void reduce_backward(const Tensor& dy, const Tensor& index, ReduceShape shape, Scale scale,
                     Tensor& dx) {
  check_alike("reduce_backward", {{"dy", dy}, {"dx", dx}});
  check_numel("reduce_backward", "dx", dx, shape.n * shape.outputs());
  check_numel("reduce_backward", "dy", dy, shape.outputs());
  launch(dy, [&]<class K, class T>(Stream& s) {
    K::reduce_backward(s, shape, dy.data<T>(), optional_data<std::int64_t>(index), scale,
                       dx.data<T>());
  });
}

void sum_to(const Tensor& x, Scale scale, Tensor& y) {
  const std::vector<ReduceShape> shapes = reductions(x.shape(), y.shape());
  if (shapes.empty()) {
    axpby(x.reshape(y.shape()), scale, y);
    return;
  }
  Tensor rest = x;
  for (const ReduceShape& shape : std::span(shapes).first(shapes.size() - 1)) {
    Tensor sums = Tensor::empty({shape.outputs()}, x.dtype(), x.device());
    reduce_sum(rest, shape, {}, sums);
    rest = sums;
  }
  reduce_sum(rest, shapes.back(), scale, y);
}

}  // namespace brigade::ops
