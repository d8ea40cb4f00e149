#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/kernels.h"
#include "core/tensor.h"

/// Copies between layouts, all by one kernel (copy_strided): what reshape, transpose, slice and
/// concat of autograd/functions/shape.h are written in. Checked and enqueued as the functions of
/// core/ops.h.
namespace brigade::ops {

/// x = factor x. With factor 0 the old values have no influence, not even as NaN.
void scale_in_place(double factor, Tensor& x);

/// y = alpha x with its dimensions reordered + beta y: dimension d of y is dims[d] of x.
void permute(const Tensor& x, std::span<const std::size_t> dims, Scale scale, Tensor& y);

/// The slice of `whole` that begins at `begin` of dimension `dim` and is as long there as `part`;
/// the other extents are equal.   read_slice: part = alpha slice + beta part
void read_slice(const Tensor& whole, std::size_t dim, std::int64_t begin, Scale scale,
                Tensor& part);
/// slice = alpha part + beta slice
void write_slice(const Tensor& part, std::size_t dim, std::int64_t begin, Scale scale,
                 Tensor& whole);

}  // namespace brigade::ops
