#include "dist/bucket.h"

#include "core/error.h"

namespace brigade::dist {

BucketPlan assign_buckets(std::span<const std::size_t> parameter_bytes, std::size_t cap_bytes) {
  BucketPlan plan;
  std::size_t open_bytes = 0;
  for (std::size_t i = parameter_bytes.size(); i-- > 0;) {
    if (plan.empty() || open_bytes + parameter_bytes[i] > cap_bytes) {
      plan.emplace_back();
      open_bytes = 0;
    }
    plan.back().push_back(i);
    open_bytes += parameter_bytes[i];
  }
  return plan;
}

std::size_t slice_bytes(const Tensor& parameter) {
  return (parameter.nbytes() + kSliceAlignment - 1) / kSliceAlignment * kSliceAlignment;
}

std::vector<Bucket> make_buckets(std::span<const autograd::Variable> parameters,
                                 const BucketPlan& plan) {
  std::vector<bool> placed(parameters.size(), false);
  std::vector<Bucket> buckets;
  for (const std::vector<std::size_t>& members : plan) {
    BRIGADE_CHECK(!members.empty(), "bucket: a bucket of the plan is empty");
    const Tensor& first = parameters[members.front()].data();
    std::size_t bytes = 0;
    for (const std::size_t i : members) {
      const Tensor& data = parameters[i].data();
      BRIGADE_CHECK(!placed.at(i), "bucket: parameter '", parameters[i].name(),
                    "' is in the plan twice");
      BRIGADE_CHECK(data.dtype() == first.dtype() && data.device() == first.device(),
                    "bucket: expected '", parameters[i].name(), "' as ", first.dtype(), " on ",
                    first.device(), ", got ", data.dtype(), " on ", data.device());
      placed[i] = true;
      bytes += slice_bytes(data);
    }

    const Shape flat{static_cast<std::int64_t>(bytes / size_of(first.dtype()))};
    Bucket bucket{.members = members,
                  .data = Tensor::zeros(flat, first.dtype(), first.device()),
                  .grads = Tensor::zeros(flat, first.dtype(), first.device()),
                  .label = members.size() == 1 ? parameters[members.front()].name()
                                               : concat("bucket_", buckets.size())};
    std::int64_t offset = 0;
    for (const std::size_t i : members) {
      const autograd::Variable& parameter = parameters[i];
      const Shape shape = parameter.shape();
      const auto slice =
          static_cast<std::int64_t>(slice_bytes(parameter.data()) / size_of(first.dtype()));
      parameter.move_data_to(bucket.data.flat_view(offset, shape));
      parameter.move_grad_to(bucket.grads.flat_view(offset, shape));
      offset += slice;
    }
    buckets.push_back(std::move(bucket));
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    BRIGADE_CHECK(placed[i], "bucket: parameter '", parameters[i].name(), "' is not in the plan");
  }
  return buckets;
}

}  // namespace brigade::dist
