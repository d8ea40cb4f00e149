#include "dist/ddp/bucket.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "core/error.h"
#include "core/runtime/context.h"

namespace brigade::dist {

std::size_t slice_bytes(const Tensor& parameter) {
  return (parameter.nbytes() + kSliceAlignment - 1) / kSliceAlignment * kSliceAlignment;
}

std::vector<PlanParameter> plan_parameters(std::span<const autograd::Variable> parameters) {
  std::vector<PlanParameter> result;
  for (const autograd::Variable& parameter : parameters) {
    const Tensor& data = parameter.data();
    result.push_back({.name = parameter.name(), .bytes = slice_bytes(data), .dtype = data.dtype()});
  }
  return result;
}

BucketPlan plan_buckets(std::span<const autograd::Variable> parameters, std::size_t cap_bytes) {
  const std::vector<PlanParameter> planned = plan_parameters(parameters);
  return assign_buckets(planned, expected_order(planned), cap_bytes);
}

namespace {

/// Every parameter in the plan, and once.
void check_plan(std::span<const autograd::Variable> parameters, const BucketPlan& plan) {
  std::vector<bool> placed(parameters.size(), false);
  for (const std::vector<std::size_t>& members : plan) {
    BRIGADE_CHECK(!members.empty(), "bucket: a bucket of the plan is empty");
    for (const std::size_t i : members) {
      BRIGADE_CHECK(!placed.at(i), "bucket: parameter '{}' is in the plan twice",
                    parameters[i].name());
      placed[i] = true;
    }
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    BRIGADE_CHECK(placed[i], "bucket: parameter '{}' is not in the plan", parameters[i].name());
  }
}

std::int64_t slice_length(const Tensor& parameter) {
  return static_cast<std::int64_t>(slice_bytes(parameter) / size_of(parameter.dtype()));
}

/// Moves the data before it allocates the gradients, and returns the memory left to the system in
/// between: all weights and gradients exist once, and of one bucket a second copy of either.
Bucket make_bucket(const std::vector<std::size_t>& members,
                   std::span<const autograd::Variable> parameters, const MakeBuffer& make_buffer) {
  const DType dtype = parameters[members.front()].data().dtype();
  const Device device = parameters[members.front()].device();
  std::int64_t length = 0;
  for (const std::size_t i : members) {
    const Tensor& data = parameters[i].data();
    BRIGADE_CHECK(data.dtype() == dtype && data.device() == device,
                  "bucket: expected '{}' as {} on {}, got {} on {}", parameters[i].name(), dtype,
                  device, data.dtype(), data.device());
    length += slice_length(data);
  }
  CachingAllocator& allocator = *Context::current().allocator(device);
  allocator.trim();  // of activations
  const auto move_members = [&](const Tensor& whole, auto move) {
    std::int64_t offset = 0;
    for (const std::size_t i : members) {
      const autograd::Variable& parameter = parameters[i];
      (parameter.*move)(whole.flat_view(offset, parameter.shape()));
      offset += slice_length(parameter.data());
    }
    allocator.trim();
  };
  Bucket bucket;
  bucket.members = members;
  bucket.data = Tensor::zeros({length}, dtype, device);
  move_members(bucket.data, &autograd::Variable::move_data_to);
  bucket.grads = make_buffer({length}, dtype, device);
  bucket.grads.zero();
  move_members(bucket.grads, &autograd::Variable::move_grad_to);
  return bucket;
}

}  // namespace

std::vector<Bucket> make_buckets(std::span<const autograd::Variable> parameters,
                                 const BucketPlan& plan, const MakeBuffer& make_buffer) {
  check_plan(parameters, plan);
  std::vector<Bucket> buckets;
  for (const std::vector<std::size_t>& members : plan) {
    Bucket bucket = make_bucket(members, parameters, make_buffer);
    bucket.label = members.size() == 1 ? parameters[members.front()].name()
                                       : fmt::format("bucket_{}", buckets.size());
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

BucketPlan plan_of(std::span<const Bucket> buckets) {
  BucketPlan plan;
  std::ranges::transform(buckets, std::back_inserter(plan), &Bucket::members);
  return plan;
}

}  // namespace brigade::dist
