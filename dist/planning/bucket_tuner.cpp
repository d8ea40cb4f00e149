#include "dist/planning/bucket_tuner.h"

#include <cstdint>

#include "core/runtime/context.h"
#include "dist/comm/gather.h"
#include "dist/planning/link_times.h"

namespace brigade::dist {
namespace {

constexpr int kSteps = 5;
constexpr int kUnobserved = 2;  // steps: the first ones are slow, and before a rebuild
constexpr double kTolerance = 0.01;
constexpr double kWorthIt = 0.02;  // a gain that is more than noise, of the time until the end

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
  const BucketPlan before = plan_of(averager_.buckets());
  std::size_t bytes = 0;
  for (const Bucket& bucket : averager_.buckets()) {
    bytes += bucket.grads.nbytes();
  }
  const auto numel = static_cast<std::int64_t>(bytes / sizeof(float));
  const LinkTimes link = measure_link(comm, comm.make_buffer({numel}, DType::f32, device));
  const AllReduceMs all_reduce_ms = [&link](std::size_t size) {
    return link.ms(static_cast<double>(size));
  };

  // From here on all ranks calculate with the same numbers.
  const std::vector<GradientReady> order = broadcast_from_rank0(comm, times_.usual_order());
  const BucketPlan plan = best_buckets(planned, order, all_reduce_ms, kTolerance);
  BucketChoice choice{.backward_ms = order.back().ms,
                      .before_ms = last_arrival_ms(planned, order, before, all_reduce_ms),
                      .now_ms = last_arrival_ms(planned, order, plan, all_reduce_ms)};
  choice.changed = choice.now_ms < (1.0 - kWorthIt) * choice.before_ms;
  if (choice.changed) {
    averager_.use_plan(plan);
  } else {
    choice.now_ms = choice.before_ms;
  }
  return choice;
}

}  // namespace brigade::dist
