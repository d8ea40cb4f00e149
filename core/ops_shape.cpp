#include "core/ops.h"
#include "core/ops_private.h"
#include "core/strides_private.h"

namespace brigade::ops {
namespace {

/// `source` and `target`: elements of x and y that come before the first one.
void copy_strided(const StridePair& copy, const Tensor& x, std::int64_t source, Scale scale,
                  Tensor& y, std::int64_t target) {
  if (x.numel() > 0 && y.numel() > 0) {
    launch(x, [&]<class K, class T>(Stream& s) {
      K::copy_strided(s, copy, x.data<T>() + source, scale, y.data<T>() + target);
    });
  }
}

void check_slice(const Tensor& part, std::size_t dim, std::int64_t begin, const Tensor& whole) {
  check_alike("slice", {{"whole", whole}, {"part", part}});
  BRIGADE_CHECK(part.shape().rank() == whole.shape().rank() &&
                    part.shape() == whole.shape().with_extent(dim, part.shape()[dim]),
                "slice: expected a part of {} in dimension {}, got {}", whole.shape(), dim,
                part.shape());
  const std::int64_t end = begin + part.shape()[dim];
  BRIGADE_CHECK(begin >= 0 && end <= whole.shape()[dim],
                "slice: expected a range within 0 and {} of dimension {}, got {} to {}",
                whole.shape()[dim], dim, begin, end);
}

}  // namespace

void scale_in_place(double factor, Tensor& x) {
  if (factor == 0.0) {
    fill(0.0, x);
  } else if (factor != 1.0) {
    axpby(x, {.alpha = factor, .beta = 0.0}, x);
  }
}

void permute(const Tensor& x, std::span<const std::size_t> dims, Scale scale, Tensor& y) {
  check_alike("permute", {{"x", x}, {"y", y}});
  BRIGADE_CHECK(dims.size() == x.shape().rank() && dims.size() == y.shape().rank(),
                "permute: expected {} dimensions, got x {} and y {}", dims.size(), x.shape(),
                y.shape());
  const Strides strides = strides_of(x.shape());
  Strides from{};
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    BRIGADE_CHECK(y.shape()[dim] == x.shape()[dims[dim]],
                  "permute: expected dimension {} of y to be {}, got {}", dim, x.shape()[dims[dim]],
                  y.shape());
    from[dim] = strides[dims[dim]];
  }
  copy_strided(merged(y.shape(), from, strides_of(y.shape())), x, 0, scale, y, 0);
}

void read_slice(const Tensor& whole, std::size_t dim, std::int64_t begin, Scale scale,
                Tensor& part) {
  check_slice(part, dim, begin, whole);
  const Strides from = strides_of(whole.shape());
  copy_strided(merged(part.shape(), from, strides_of(part.shape())), whole, begin * from[dim],
               scale, part, 0);
}

void write_slice(const Tensor& part, std::size_t dim, std::int64_t begin, Scale scale,
                 Tensor& whole) {
  check_slice(part, dim, begin, whole);
  const Strides to = strides_of(whole.shape());
  copy_strided(merged(part.shape(), strides_of(part.shape()), to), part, 0, scale, whole,
               begin * to[dim]);
}

}  // namespace brigade::ops
