#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "autograd/variable.h"
#include "core/tensor.h"
#include "dist/ddp/bucket_plan.h"

namespace brigade::dist {

/// Bytes one parameter occupies in a bucket: rounded up to kSliceAlignment, so that every slice is
/// aligned for vector loads. The padding is zero and is all-reduced with the rest.
inline constexpr std::size_t kSliceAlignment = 64;
std::size_t slice_bytes(const Tensor& parameter);

/// The parameters as a plan sees them.
std::vector<PlanParameter> plan_parameters(std::span<const autograd::Variable> parameters);

/// assign_buckets for these parameters in expected_order().
BucketPlan plan_buckets(std::span<const autograd::Variable> parameters, std::size_t cap_bytes);

/// One bucket: two flat tensors of the same layout, and the parameters whose data and gradients are
/// slices of them.
struct Bucket {
  std::vector<std::size_t> members;  ///< indices into the parameter list, in slice order
  Tensor data;                       ///< the weights
  Tensor grads;                      ///< the gradients: what is all-reduced, without any copy
  std::string label;                 ///< "bucket_2", or the name of the only parameter in it
};

/// The members of each bucket, as a plan.
BucketPlan plan_of(std::span<const Bucket> buckets);

/// Allocates the memory of gradients: Communicator::make_buffer, or by default the device's
/// allocator.
using MakeBuffer = std::function<Tensor(const Shape&, DType, Device)>;

/// Allocates the buckets of `plan` and moves the parameters' data and gradients into them. Existing
/// values are copied, the rest is zero. Works bucket by bucket: the memory that all parameters have
/// left goes back to the system before the next bucket is allocated.
/// Errors: a parameter missing from the plan or in it twice; dtypes or devices that differ.
std::vector<Bucket> make_buckets(std::span<const autograd::Variable> parameters,
                                 const BucketPlan& plan,
                                 const MakeBuffer& make_buffer = Tensor::empty);

}  // namespace brigade::dist
