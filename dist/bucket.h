#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "autograd/variable.h"
#include "core/tensor.h"

namespace brigade::dist {

/// Which parameters share a bucket, in the order in which their gradients are expected. Pure
/// numbers.
using BucketPlan = std::vector<std::vector<std::size_t>>;

/// Packs parameters into buckets of at most `cap_bytes`, walking them in reverse order of
/// registration: backward produces the last layer's gradients first.
///
/// A bucket closes *before* the parameter that would take it past the cap, so only a parameter that
/// alone exceeds the cap makes a larger bucket, which it has to itself. One that fits exactly is
/// let in. cap_bytes = 0: one each.
BucketPlan assign_buckets(std::span<const std::size_t> parameter_bytes, std::size_t cap_bytes);

/// Bytes one parameter occupies in a bucket: rounded up to kSliceAlignment, so that every slice is
/// aligned for vector loads. The padding is zero and travels along.
inline constexpr std::size_t kSliceAlignment = 64;
std::size_t slice_bytes(const Tensor& parameter);

/// One bucket: two flat tensors of the same layout, and the parameters whose data and gradients are
/// slices of them.
struct Bucket {
  std::vector<std::size_t> members;  ///< indices into the parameter list, in slice order
  Tensor data;                       ///< the weights
  Tensor grads;                      ///< the gradients: what is all-reduced, without any copy
  std::string label;                 ///< "bucket_2", or the name of the only parameter in it
};

/// Allocates the buckets of `plan` and moves the parameters' data and gradients into them.
/// Errors: a parameter missing from the plan or in it twice; dtypes or devices that differ.
std::vector<Bucket> make_buckets(std::span<const autograd::Variable> parameters,
                                 const BucketPlan& plan);

}  // namespace brigade::dist
