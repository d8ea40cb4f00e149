#include "autograd/functions/shape.h"

#include <algorithm>
#include <numeric>

#include "autograd/node.h"
#include "core/error.h"
#include "core/ops.h"

namespace brigade::autograd {
namespace {

using Dims = std::vector<std::size_t>;

Variable permuted(const Variable& x, const Dims& dims) {
  std::vector<std::int64_t> extents;
  for (const std::size_t dim : dims) {
    extents.push_back(x.shape()[dim]);
  }
  Dims inverse(dims.size());
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    inverse[dims[dim]] = dim;
  }
  Tensor y = Tensor::empty_like(x.data(), Shape(extents));
  ops::permute(x.data(), dims, {}, y);
  return record("permute", y, x, [inverse](const Tensor& dy, Tensor& dx, Scale scale) {
    ops::permute(dy, inverse, scale, dx);
  });
}

}  // namespace

Variable reshape(const Variable& x, std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> extents(shape.begin(), shape.end());
  const auto inferred = std::ranges::find(extents, -1);
  const bool infer = inferred != extents.end();
  if (infer) {
    *inferred = 1;
  }
  bool valid = std::ranges::all_of(extents, [](std::int64_t extent) { return extent >= 0; });
  if (infer && valid) {
    const std::int64_t others = Shape(extents).numel();
    valid = others > 0;  // beside an extent of 0 any number would do
    *inferred = valid ? x.data().numel() / others : 0;
  }
  BRIGADE_CHECK(valid && Shape(extents).numel() == x.data().numel(),
                "reshape: expected {} elements as in {} and at most one -1, got {}",
                x.data().numel(), x.shape(), text_of(shape));
  return record("reshape", x.data().reshape(Shape(extents)), x,
                [](const Tensor& dy, Tensor& dx, Scale scale) {
                  ops::axpby(dy.reshape(dx.shape()), scale, dx);
                });
}

Variable transpose(const Variable& x, int dim0, int dim1) {
  Dims dims(x.shape().rank());
  std::iota(dims.begin(), dims.end(), std::size_t{0});
  std::swap(dims[x.shape().wrap_dim("transpose", dim0)],
            dims[x.shape().wrap_dim("transpose", dim1)]);
  return permuted(x, dims);
}

Variable permute(const Variable& x, const std::vector<int>& dims) {
  Dims wrapped;
  for (const int dim : dims) {
    wrapped.push_back(x.shape().wrap_dim("permute", dim));
  }
  Dims sorted = wrapped;
  std::ranges::sort(sorted);
  const bool repeated = std::ranges::adjacent_find(sorted) != sorted.end();
  BRIGADE_CHECK(dims.size() == x.shape().rank() && !repeated,
                "permute: expected each of the {} dimensions of {} once, got {}", x.shape().rank(),
                x.shape(), text_of(std::vector<std::int64_t>(dims.begin(), dims.end())));
  return permuted(x, wrapped);
}

Variable slice(const Variable& x, int dim, std::int64_t begin, std::int64_t end) {
  const std::size_t d = x.shape().wrap_dim("slice", dim);
  const std::int64_t extent = x.shape()[d];
  const auto within = [extent](std::int64_t i) {
    return std::clamp(i < 0 ? i + extent : i, std::int64_t{0}, extent);
  };
  const std::int64_t first = within(begin);
  const std::int64_t count = std::max(within(end) - first, std::int64_t{0});
  Tensor y = Tensor::empty_like(x.data(), x.shape().with_extent(d, count));
  ops::read_slice(x.data(), d, first, {}, y);
  return record("slice", y, x, [d, first](const Tensor& dy, Tensor& dx, Scale scale) {
    ops::scale_in_place(scale.beta, dx);  // the gradient is 0 outside the slice
    ops::write_slice(dy, d, first, {.alpha = scale.alpha, .beta = 1.0}, dx);
  });
}

Variable concat(const std::vector<Variable>& tensors, int dim) {
  BRIGADE_CHECK(!tensors.empty(), "concat: expected at least one tensor, got none");
  const Variable& first = tensors.front();
  const std::size_t d = first.shape().wrap_dim("concat", dim);
  std::vector<std::int64_t> begins;
  std::int64_t extent = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Shape& shape = tensors[i].shape();
    BRIGADE_CHECK(shape.rank() == first.shape().rank() &&
                      shape.with_extent(d, 0) == first.shape().with_extent(d, 0),
                  "concat: expected tensor {} to have the shape {} of tensor 0, dimension {} "
                  "excepted, got {}",
                  i, first.shape(), d, shape);
    begins.push_back(extent);
    extent += shape[d];
  }
  Tensor y = Tensor::empty_like(first.data(), first.shape().with_extent(d, extent));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    ops::write_slice(tensors[i].data(), d, begins[i], {}, y);
  }
  return record("concat", y, tensors, [d, begins](const Tensor& dy, GradWriter& grads) {
    for (std::size_t i = 0; i < begins.size(); ++i) {
      grads.write(i,
                  [&](Tensor& dx, Scale scale) { ops::read_slice(dy, d, begins[i], scale, dx); });
    }
  });
}

}  // namespace brigade::autograd
