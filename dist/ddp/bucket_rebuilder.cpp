#include "dist/ddp/bucket_rebuilder.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

namespace brigade::dist {
namespace {

/// `seen`, and behind it whatever is missing.
std::vector<std::size_t> completed(std::vector<std::size_t> seen,
                                   std::span<const PlanParameter> parameters) {
  std::vector<bool> known(parameters.size(), false);
  for (const std::size_t i : seen) {
    known.at(i) = true;
  }
  const std::vector<std::size_t> all = expected_order(parameters);
  std::copy_if(all.begin(), all.end(), std::back_inserter(seen),
               [&known](std::size_t i) { return !known[i]; });
  return seen;
}

}  // namespace

std::optional<BucketPlan> BucketRebuilder::decide(std::span<const autograd::Variable> parameters,
                                                  std::size_t cap_bytes,
                                                  const std::vector<Bucket>& current,
                                                  Communicator& comm) {
  const std::vector<PlanParameter> planned = plan_parameters(parameters);
  std::vector<std::size_t> seen = std::exchange(seen_, {});
  const std::vector<std::size_t> count = broadcast_from_rank0(comm, std::vector{seen.size()});
  watching_ = count.front() == 0;  // rank 0 has run no backward of its own (shadow_backward)
  if (watching_) {
    return std::nullopt;
  }
  const std::vector<std::size_t> order =
      broadcast_from_rank0(comm, completed(std::move(seen), planned));
  BucketPlan plan = assign_buckets(planned, order, cap_bytes);
  BucketPlan before;
  for (const Bucket& bucket : current) {
    before.push_back(bucket.members);
  }
  return same_buckets(plan, before) ? std::nullopt : std::optional(std::move(plan));
}

}  // namespace brigade::dist
