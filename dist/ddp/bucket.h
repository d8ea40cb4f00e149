#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/variable.h"
#include "core/tensor.h"
#include "dist/ddp/bucket_plan.h"

namespace brigade::dist {

/// Bytes one parameter occupies in a bucket: rounded up to kSliceAlignment, so that every slice is
/// aligned for vector loads. The padding is zero and travels along.
inline constexpr std::size_t kSliceAlignment = 64;
std::size_t slice_bytes(const Tensor& parameter);

/// The parameters as a plan sees them. A layer is what a name says before its last '.': "4.weight"
/// and "4.bias" are of layer "4"; a parameter whose name has no '.' is a layer of its own.
std::vector<PlanParameter> plan_parameters(std::span<const autograd::Variable> parameters);

/// What one collective carries: a stretch of a bucket's gradients.
struct Chunk {
  Tensor grads;       ///< flat view
  std::string label;  ///< the bucket's, or "0.weight[2/8]" for the second of eight
};

/// One bucket: two flat tensors of the same layout, and the parameters whose data and gradients are
/// slices of them.
struct Bucket {
  std::vector<std::size_t> members;  ///< indices into the parameter list, in slice order
  Tensor data;                       ///< the weights
  Tensor grads;                      ///< the gradients: what is all-reduced, without any copy
  std::string label;                 ///< "bucket_2", or the name of the only parameter in it
  std::vector<Chunk> pieces;         ///< all of `grads`, in order; one unless it was split
};

/// The members of `bucket` whose gradients lie in `piece`, whole or in part.
std::vector<std::size_t> members_of(const Chunk& piece, const Bucket& bucket,
                                    std::span<const autograd::Variable> parameters);

/// Who gives gradients their memory: Communicator::make_buffer, or by default the device's
/// allocator.
using MakeBuffer = std::function<Tensor(const Shape&, DType, Device)>;

/// Allocates the buckets of `plan` and moves the parameters' data and gradients into them; present
/// values are copied, padding is zero. Bucket by bucket: the memory that all parameters have left
/// goes back to the system before the next bucket is made, unless somebody else holds on to it.
///
/// A bucket of `before` whose members stay together in their order stays where it is.
///
/// With `piece_bytes` a bucket larger than that is split into equal pieces of at most so many bytes
/// (at least kSliceAlignment), so that it travels as several collectives.
/// Errors: a parameter missing from the plan or in it twice; dtypes or devices that differ.
std::vector<Bucket> make_buckets(std::span<const autograd::Variable> parameters,
                                 const BucketPlan& plan,
                                 std::optional<std::size_t> piece_bytes = {},
                                 const MakeBuffer& make_buffer = Tensor::empty,
                                 std::vector<Bucket> before = {});

}  // namespace brigade::dist
