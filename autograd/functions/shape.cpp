#include "autograd/functions/shape.h"

#include <algorithm>
#include <numeric>

#include "autograd/node.h"
#include "core/error.h"
#include "core/ops.h"
#include "core/ops_shape.h"

namespace brigade::autograd {
namespace {

using Dims = std::vector<std::size_t>;

class ReshapeNode final : public Node {
 public:
  const char* name() const override { return "reshape"; }

  void backward(const Tensor& dy, GradWriter& grads) override {
    grads.write(0, [&](Tensor& dx, Scale scale) { ops::axpby(dy.reshape(dx.shape()), scale, dx); });
  }

  void release() override {}
};

class PermuteNode final : public Node {
 public:
  explicit PermuteNode(const Dims& dims) : inverse_(dims.size()) {
    for (std::size_t dim = 0; dim < dims.size(); ++dim) {
      inverse_[dims[dim]] = dim;
    }
  }
  const char* name() const override { return "permute"; }

  void backward(const Tensor& dy, GradWriter& grads) override {
    grads.write(0, [&](Tensor& dx, Scale scale) { ops::permute(dy, inverse_, scale, dx); });
  }

  void release() override {}

 private:
  Dims inverse_;
};

class SliceNode final : public Node {
 public:
  SliceNode(std::size_t dim, std::int64_t begin) : dim_(dim), begin_(begin) {}
  const char* name() const override { return "slice"; }

  void backward(const Tensor& dy, GradWriter& grads) override {
    grads.write(0, [&](Tensor& dx, Scale scale) {
      ops::scale_in_place(scale.beta, dx);  // the gradient is 0 outside the slice
      ops::write_slice(dy, dim_, begin_, {.alpha = scale.alpha, .beta = 1.0}, dx);
    });
  }

  void release() override {}

 private:
  std::size_t dim_;
  std::int64_t begin_;
};

class ConcatNode final : public Node {
 public:
  ConcatNode(std::size_t dim, std::vector<std::int64_t> begins)
      : dim_(dim), begins_(std::move(begins)) {}
  const char* name() const override { return "concat"; }

  void backward(const Tensor& dy, GradWriter& grads) override {
    for (std::size_t i = 0; i < begins_.size(); ++i) {
      grads.write(
          i, [&](Tensor& dx, Scale scale) { ops::read_slice(dy, dim_, begins_[i], scale, dx); });
    }
  }

  void release() override {}

 private:
  std::size_t dim_;
  std::vector<std::int64_t> begins_;  // of each input in the result
};

Variable permuted(const Variable& x, const Dims& dims) {
  std::vector<std::int64_t> extents;
  for (const std::size_t dim : dims) {
    extents.push_back(x.shape()[dim]);
  }
  Tensor y = Tensor::empty(Shape(extents), x.data().dtype(), x.device());
  ops::permute(x.data(), dims, {}, y);
  return record<PermuteNode>(std::move(y), {x}, dims);
}

/// [2, -1]: as the caller wrote it.
std::string text_of(std::span<const std::int64_t> extents) {
  std::string text;
  for (const std::int64_t extent : extents) {
    text += (text.empty() ? "[" : ", ") + std::to_string(extent);
  }
  return text.empty() ? "[]" : text + "]";
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
  BRIGADE_CHECK(valid && Shape(extents).numel() == x.data().numel(), "reshape: expected ",
                x.data().numel(), " elements as in ", x.shape(), " and at most one -1, got ",
                text_of(shape));
  return record<ReshapeNode>(x.data().reshape(Shape(extents)), {x});
}

Variable transpose(const Variable& x, int dim0, int dim1) {
  Dims dims(x.shape().rank());
  std::iota(dims.begin(), dims.end(), std::size_t{0});
  std::swap(dims[ops::wrap_dim("transpose", dim0, x.shape())],
            dims[ops::wrap_dim("transpose", dim1, x.shape())]);
  return permuted(x, dims);
}

Variable permute(const Variable& x, const std::vector<int>& dims) {
  Dims wrapped;
  for (const int dim : dims) {
    wrapped.push_back(ops::wrap_dim("permute", dim, x.shape()));
  }
  Dims sorted = wrapped;
  std::ranges::sort(sorted);
  const bool repeated = std::ranges::adjacent_find(sorted) != sorted.end();
  BRIGADE_CHECK(dims.size() == x.shape().rank() && !repeated, "permute: expected each of the ",
                x.shape().rank(), " dimensions of ", x.shape(), " once, got ",
                text_of(std::vector<std::int64_t>(dims.begin(), dims.end())));
  return permuted(x, wrapped);
}

Variable slice(const Variable& x, int dim, std::int64_t begin, std::int64_t end) {
  const std::size_t d = ops::wrap_dim("slice", dim, x.shape());
  const std::int64_t extent = x.shape()[d];
  const auto within = [extent](std::int64_t i) {
    return std::clamp(i < 0 ? i + extent : i, std::int64_t{0}, extent);
  };
  const std::int64_t first = within(begin);
  const std::int64_t count = std::max(within(end) - first, std::int64_t{0});
  Tensor y = Tensor::empty(x.shape().with_extent(d, count), x.data().dtype(), x.device());
  ops::read_slice(x.data(), d, first, {}, y);
  return record<SliceNode>(std::move(y), {x}, d, first);
}

Variable concat(const std::vector<Variable>& tensors, int dim) {
  BRIGADE_CHECK(!tensors.empty(), "concat: expected at least one tensor, got none");
  const Variable& first = tensors.front();
  const std::size_t d = ops::wrap_dim("concat", dim, first.shape());
  std::vector<std::int64_t> begins;
  std::int64_t extent = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Shape& shape = tensors[i].shape();
    BRIGADE_CHECK(shape.rank() == first.shape().rank() &&
                      shape.with_extent(d, 0) == first.shape().with_extent(d, 0),
                  "concat: expected tensor ", i, " to have the shape ", first.shape(),
                  " of tensor 0, dimension ", d, " excepted, got ", shape);
    begins.push_back(extent);
    extent += shape[d];
  }
  Tensor y =
      Tensor::empty(first.shape().with_extent(d, extent), first.data().dtype(), first.device());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    ops::write_slice(tensors[i].data(), d, begins[i], {}, y);
  }
  return record<ConcatNode>(std::move(y), tensors, d, std::move(begins));
}

}  // namespace brigade::autograd
