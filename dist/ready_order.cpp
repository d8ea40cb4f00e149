#include "dist/ready_order.h"

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

/// Empty if rank 0 has seen no backward.
std::vector<std::size_t> of_rank_zero(bool seen, const std::vector<std::size_t>& mine,
                                      Communicator& comm) {
  // 64 bits on the wire, whatever a size_t is on each host.
  std::vector<std::uint64_t> numbers{seen ? std::uint64_t{1} : 0};
  numbers.insert(numbers.end(), mine.begin(), mine.end());
  comm.broadcast(std::as_writable_bytes(std::span(numbers)), 0);
  return numbers.front() == 0 ? std::vector<std::size_t>()
                              : std::vector<std::size_t>(numbers.begin() + 1, numbers.end());
}

}  // namespace

std::optional<BucketPlan> ReadyOrder::decide(std::span<const autograd::Variable> parameters,
                                             const BucketPolicy& policy,
                                             const std::vector<Bucket>& current,
                                             Communicator& comm) {
  const std::vector<PlanParameter> planned = plan_parameters(parameters);
  const bool seen = !seen_.empty();
  const std::vector<std::size_t> order =
      of_rank_zero(seen, completed(std::exchange(seen_, {}), planned), comm);
  watching_ = order.empty();
  if (watching_) {
    return std::nullopt;
  }
  BucketPlan plan = assign_buckets(planned, order, policy);
  BucketPlan before;
  for (const Bucket& bucket : current) {
    before.push_back(bucket.members);
  }
  return same_buckets(plan, before) ? std::nullopt : std::optional(std::move(plan));
}

}  // namespace brigade::dist
