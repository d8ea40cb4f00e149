#include "dist/planning/bucket_tuner.h"

#include <algorithm>
#include <cstdint>

#include "core/runtime/context.h"
#include "dist/planning/link_times.h"

namespace brigade::dist {
namespace {

constexpr int kSteps = 5;
constexpr int kUnobserved = 2;  // steps: the first ones are slow, and before a rebuild
constexpr double kTolerance = 0.01;
constexpr double kWorthIt = 0.02;  // a gain that is more than noise, of the time until the end

/// Plans as the ranks exchange them: the parameters bucket by bucket, each bucket's number first.
std::vector<std::size_t> flat(const BucketPlan& plan) {
  std::vector<std::size_t> numbers;
  for (const std::vector<std::size_t>& members : plan) {
    numbers.push_back(members.size());
    numbers.insert(numbers.end(), members.begin(), members.end());
  }
  return numbers;
}

BucketPlan plan_from(const std::vector<std::size_t>& numbers) {
  BucketPlan plan;
  for (auto next = numbers.begin(); next != numbers.end();) {
    const auto first = next + 1;
    next = first + static_cast<std::ptrdiff_t>(*next);
    plan.emplace_back(first, next);
  }
  return plan;
}

}  // namespace

std::optional<BucketChoice> BucketTuner::after_step() {
  if (!times_.watching()) {
    return std::nullopt;
  }
  if (++steps_ <= kUnobserved) {
    times_.forget();
  }
  if (steps_ < kSteps) {
    return std::nullopt;
  }
  const std::vector<char> enough{times_.backwards() == 0 ? '\0' : '\1'};
  if (broadcast_from_rank0(averager_.communicator(), enough)[0] == 0) {
    return std::nullopt;
  }
  times_.stop();
  return choose();
}

BucketChoice BucketTuner::choose() {
  Communicator& comm = averager_.communicator();
  const std::vector<autograd::Variable>& parameters = averager_.parameters();
  const std::vector<PlanParameter> planned = plan_parameters(parameters);
  const Device device = parameters.front().device();
  compute_stream(device).synchronize();
  std::size_t bytes = 0;
  BucketPlan before;
  for (const Bucket& bucket : averager_.buckets()) {
    bytes += bucket.grads.nbytes();
    before.push_back(bucket.members);
  }
  const auto numel = static_cast<std::int64_t>(bytes / sizeof(float));
  const LinkTimes link = measure_link(comm, comm.make_buffer({numel}, DType::f32, device));
  const AllReduceMs all_reduce_ms = [&link](std::size_t size) {
    return link.ms(static_cast<double>(size));
  };

  BucketChoice choice;
  BucketPlan plan = before;
  if (comm.rank() == 0) {
    const std::vector<GradientReady> order = times_.usual_order();
    choice.backward_ms = order.back().ms;
    choice.before_ms = last_arrival_ms(planned, order, before, all_reduce_ms);
    plan = best_buckets(planned, order, all_reduce_ms, kTolerance);
    choice.now_ms = last_arrival_ms(planned, order, plan, all_reduce_ms);
    choice.changed = choice.now_ms < (1.0 - kWorthIt) * choice.before_ms;
    choice.now_ms = choice.changed ? choice.now_ms : choice.before_ms;
  }
  choice = broadcast_from_rank0(comm, std::vector{choice})[0];
  if (choice.changed) {
    averager_.use_plan(plan_from(all_gather_sequences(comm, flat(plan)).front()));
  }
  return choice;
}

}  // namespace brigade::dist
