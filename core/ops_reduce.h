#pragma once

#include "core/kernel_args.h"
#include "core/tensor.h"

/// Sums and maxima, under the rules of core/ops.h: checked, into memory of the caller.
namespace brigade::ops {

/// A shape as a reduction over dimension `dim` sees it; negative dims count from the end. Error of
/// function `who` if there is no such dimension. A scalar counts as one dimension of extent 1.
ReduceShape reduce_shape(const char* who, const Shape& shape, std::int64_t dim);
/// A reduction of all elements.
inline ReduceShape reduce_all(const Shape& shape) {
  return {.outer = 1, .n = shape.numel(), .inner = 1};
}

/// y = sums of x over n.   x: any shape of outer * n * inner elements   y: outer * inner elements
void reduce_sum(const Tensor& x, ReduceShape shape, Scale scale, Tensor& y);
/// sums = column sums of x.   x: [rows, cols]   sums: [cols]
inline void column_sum(const Tensor& x, Scale scale, Tensor& sums) {
  reduce_sum(x, {.outer = 1, .n = x.shape()[0], .inner = x.shape()[1]}, scale, sums);
}
/// y = maxima of x over n, index = where the first of equal ones is, an i64. NaN is larger than any
/// number. Error if n = 0.
void reduce_max(const Tensor& x, ReduceShape shape, Tensor& y, Tensor& index);
/// The gradient of both: dx = dy at all n elements, or with `index` at that one and 0 elsewhere.
/// `index`: of reduce_max, or undefined
void reduce_backward(const Tensor& dy, const Tensor& index, ReduceShape shape, Scale scale,
                     Tensor& dx);

/// The gradient of broadcasting: y = x summed over the dimensions along which y was repeated. One
/// reduce_sum for each group of neighbouring ones, none for equal shapes.
void sum_to(const Tensor& x, Scale scale, Tensor& y);

}  // namespace brigade::ops
