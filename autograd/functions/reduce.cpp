#include "autograd/functions/reduce.h"

#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {
namespace {

/// The shape of the result over one dimension.
Shape without_dim(const Shape& shape, std::int64_t dim, bool keepdim) {
  std::vector<std::int64_t> extents(shape.extents().begin(), shape.extents().end());
  if (extents.empty()) {
    return shape;
  }
  const auto at = extents.begin() + static_cast<std::ptrdiff_t>(shape.wrap_dim("reduce", dim));
  if (keepdim) {
    *at = 1;
  } else {
    extents.erase(at);
  }
  return Shape(extents);
}

/// Backward: dx = factor dy at the elements of `index`, at all if that is undefined.
Variable recorded(const char* name, const Tensor& y, const Variable& x, ReduceShape shape,
                  double factor, const Tensor& index) {
  return record(name, y, x, [shape, factor, index](const Tensor& dy, Tensor& dx, Scale scale) {
    ops::reduce_backward(dy, index, shape, scale.times(factor), dx);
  });
}

Variable scaled_sum(const char* name, const Variable& x, ReduceShape shape, const Shape& result,
                    double factor) {
  Tensor y = Tensor::empty_like(x.data(), result);
  ops::reduce_sum(x.data(), shape, {.alpha = factor}, y);
  return recorded(name, y, x, shape, factor, Tensor());
}

Variable largest(const Variable& x, ReduceShape shape, const Shape& result) {
  Tensor y = Tensor::empty_like(x.data(), result);
  Tensor index = Tensor::empty(result, DType::i64, x.device());
  ops::reduce_max(x.data(), shape, y, index);
  return recorded("max", y, x, shape, 1.0, index);
}

}  // namespace

Variable sum(const Variable& x) {
  return scaled_sum("sum", x, ops::reduce_all(x.shape()), {}, 1.0);
}

Variable sum(const Variable& x, std::int64_t dim, bool keepdim) {
  const ReduceShape shape = ops::reduce_shape("sum", x.shape(), dim);
  return scaled_sum("sum", x, shape, without_dim(x.shape(), dim, keepdim), 1.0);
}

Variable mean(const Variable& x) {
  const ReduceShape shape = ops::reduce_all(x.shape());
  return scaled_sum("mean", x, shape, {}, 1.0 / static_cast<double>(shape.n));
}

Variable mean(const Variable& x, std::int64_t dim, bool keepdim) {
  const ReduceShape shape = ops::reduce_shape("mean", x.shape(), dim);
  return scaled_sum("mean", x, shape, without_dim(x.shape(), dim, keepdim),
                    1.0 / static_cast<double>(shape.n));
}

Variable max(const Variable& x) {
  return largest(x, ops::reduce_all(x.shape()), {});
}

Variable max(const Variable& x, std::int64_t dim, bool keepdim) {
  const ReduceShape shape = ops::reduce_shape("max", x.shape(), dim);
  return largest(x, shape, without_dim(x.shape(), dim, keepdim));
}

}  // namespace brigade::autograd
