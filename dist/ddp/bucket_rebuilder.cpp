#include "dist/ddp/bucket_rebuilder.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "dist/comm/gather.h"

namespace brigade::dist {

std::optional<BucketPlan> BucketRebuilder::decide(std::span<const autograd::Variable> parameters,
                                                  std::size_t cap_bytes,
                                                  const std::vector<Bucket>& current,
                                                  Communicator& comm) {
  std::vector<std::size_t> order =
      all_gather_sequences(comm, std::exchange(seen_, {})).front();  // rank 0's
  watching_ = order.empty();  // rank 0 has run no backward of its own (shadow_backward)
  if (watching_) {
    return std::nullopt;
  }
  const std::vector<PlanParameter> planned = plan_parameters(parameters);
  std::vector<bool> known(parameters.size(), false);
  for (const std::size_t i : order) {
    known.at(i) = true;
  }
  std::ranges::copy_if(expected_order(planned), std::back_inserter(order),
                       [&known](std::size_t i) { return !known[i]; });
  BucketPlan plan = assign_buckets(planned, order, cap_bytes);
  return same_buckets(plan, plan_of(current)) ? std::nullopt : std::optional(std::move(plan));
}

}  // namespace brigade::dist
