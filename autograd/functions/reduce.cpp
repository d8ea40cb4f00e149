#include "autograd/functions/reduce.h"

#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {
namespace {

/// What is reduced, and the shape of the result.
struct Reduction {
  ReduceShape shape;
  Shape result;
};

Reduction over_all(const Variable& x) {
  return {{.outer = 1, .n = x.shape().numel(), .inner = 1}, {}};
}

Reduction over(const char* who, const Variable& x, std::int64_t dim, bool keepdim) {
  const ReduceShape shape = ops::reduce_shape(who, x.shape(), dim);
  const auto all = x.shape().extents();
  std::vector<std::int64_t> extents(all.begin(), all.end());
  if (!extents.empty()) {
    const auto at = extents.begin() + static_cast<std::ptrdiff_t>(x.shape().wrap_dim(who, dim));
    *at = 1;
    if (!keepdim) {
      extents.erase(at);
    }
  }
  return {shape, Shape(extents)};
}

/// Backward: dx = factor dy at the elements of `index`, at all if that is undefined.
Variable recorded(const char* name, const Tensor& y, const Variable& x, ReduceShape shape,
                  double factor, const Tensor& index) {
  return record(name, y, x, [shape, factor, index](const Tensor& dy, Tensor& dx, Scale scale) {
    ops::reduce_backward(dy, index, shape, scale.times(factor), dx);
  });
}

Variable scaled_sum(const char* name, const Variable& x, const Reduction& reduction,
                    double factor) {
  Tensor y = Tensor::empty_like(x.data(), reduction.result);
  ops::reduce_sum(x.data(), reduction.shape, {.alpha = factor}, y);
  return recorded(name, y, x, reduction.shape, factor, Tensor());
}

Variable average(const Variable& x, const Reduction& reduction) {
  return scaled_sum("mean", x, reduction, 1.0 / static_cast<double>(reduction.shape.n));
}

Variable largest(const Variable& x, const Reduction& reduction) {
  Tensor y = Tensor::empty_like(x.data(), reduction.result);
  Tensor index = Tensor::empty(reduction.result, DType::i64, x.device());
  ops::reduce_max(x.data(), reduction.shape, y, index);
  return recorded("max", y, x, reduction.shape, 1.0, index);
}

}  // namespace

Variable sum(const Variable& x) {
  return scaled_sum("sum", x, over_all(x), 1.0);
}

Variable sum(const Variable& x, std::int64_t dim, bool keepdim) {
  return scaled_sum("sum", x, over("sum", x, dim, keepdim), 1.0);
}

Variable mean(const Variable& x) {
  return average(x, over_all(x));
}

Variable mean(const Variable& x, std::int64_t dim, bool keepdim) {
  return average(x, over("mean", x, dim, keepdim));
}

Variable max(const Variable& x) {
  return largest(x, over_all(x));
}

Variable max(const Variable& x, std::int64_t dim, bool keepdim) {
  return largest(x, over("max", x, dim, keepdim));
}

}  // namespace brigade::autograd
