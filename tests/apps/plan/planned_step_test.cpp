#include "apps/plan/planned_step.h"

#include <gtest/gtest.h>

namespace brigade::apps {
namespace {

/// Two parameters: forward 4 ms, backward 10 ms, in which 1 is ready after 3 ms and 0 after 9 ms;
/// optimizer 2 ms.
const ComputeTimes kCompute{
    .forward = 4.0, .backward = 10.0, .optimizer = 2.0, .order = {{1, 3.0}, {0, 9.0}}};

/// One bucket for each parameter, in the order of backward; all-reduces take 5 and 6 ms.
std::vector<PlannedBucket> two_buckets(double cpu_ms = 0.0) {
  return {{{1}, {{5.0, cpu_ms}}}, {{0}, {{6.0, cpu_ms}}}};
}

void expect_step(double step, double ms) {
  constexpr double kRounding = 1e-9;
  EXPECT_NEAR(step, ms, kRounding);
}

TEST(PlannedStep, WithoutOverlapIsASum) {
  for (const bool one_by_one : {false, true}) {
    expect_step(planned_step(kCompute, two_buckets(), {.overlap = false, .one_by_one = one_by_one}),
                16.0 + 11.0);
  }
}

TEST(PlannedStep, OverlapFollowsTheRecurrence) {
  // The first travels from 3 to 8, the second from 9 to 15; backward ends at 10.
  expect_step(planned_step(kCompute, two_buckets(), {}), 16.0 + 5.0);
  // The first travels until 13, the second from there until 19.
  const std::vector<PlannedBucket> slow{{{1}, {{10.0, 0.0}}}, {{0}, {{6.0, 0.0}}}};
  expect_step(planned_step(kCompute, slow, {}), 16.0 + 9.0);
  // Together they leave at 9.
  const std::vector<PlannedBucket> one{{{1, 0}, {{10.0, 0.0}}}};
  expect_step(planned_step(kCompute, one, {}), 16.0 + 9.0);
}

TEST(PlannedStep, BucketsLeaveInTheirOrder) {
  // The first in order is full last: both leave at 9.
  const std::vector<PlannedBucket> swapped{{{0}, {{6.0, 0.0}}}, {{1}, {{5.0, 0.0}}}};
  expect_step(planned_step(kCompute, swapped, {}), 16.0 + 10.0);
}

TEST(PlannedStep, AccumulatesMicroBatches) {
  expect_step(planned_step(kCompute, two_buckets(), {.accum = 3}), 3 * (14.0 + 5.0) + 2.0);
  expect_step(planned_step(kCompute, two_buckets(), {.accum = 3, .defer_sync = true}),
              3 * 14.0 + 5.0 + 2.0);
}

TEST(PlannedStep, ComputationIsSlowerWhereACollectiveTakesItsCore) {
  // From 3 to 8 the collective takes 2 of 5 ms: what is ready after 9 ms is now ready after 11.
  // From there it takes 2 of 6 ms: the last ms of backward takes 1.5 ms, until 12.5. It ends at 17.
  expect_step(planned_step(kCompute, two_buckets(2.0), {.shares_core = true}), 4.0 + 17.0 + 2.0);
  expect_step(planned_step(kCompute, two_buckets(2.0), {.shares_core = false}), 21.0);
  // A collective that takes the whole core: nothing is computed beside it.
  const std::vector<PlannedBucket> busy{{{1}, {{5.0, 9.0}}}, {{0}, {{6.0, 6.0}}}};
  EXPECT_DOUBLE_EQ(planned_step(kCompute, busy, {.shares_core = true}), 16.0 + 11.0);
}

TEST(PlannedStep, AnIdleLinkSavesUp) {
  // Both take the whole core, so the step is longer by what they take. The network is idle for
  // longer than 2 ms before each: 3 of 5 and 4 of 6 ms.
  std::vector<PlannedBucket> busy = two_buckets(9.0);
  const Schedule saves{.shares_core = true, .head_start = 2.0};
  expect_step(planned_step(kCompute, busy, saves), 16.0 + 3.0 + 4.0);
  // Of 5 ms 4.5 are latency.
  busy[0].chunks[0].latency_ms = 4.5;
  expect_step(planned_step(kCompute, busy, saves), 16.0 + 4.5 + 4.0);
  // Beside computation the first takes 8 of 10 ms, from 3 to 11, the second from there until 17: it
  // follows at once, so nothing is saved up for it.
  const std::vector<PlannedBucket> slow{{{1}, {{10.0, 0.0}}}, {{0}, {{6.0, 0.0}}}};
  expect_step(planned_step(kCompute, slow, {.head_start = 2.0}), 16.0 + 7.0);
}

TEST(PlannedStep, CrossStepHidesCommunicationUnderTheNextForward) {
  // Parameter 0 is needed at 4 (1 - 9 / 10) = 0.4 ms of forward, 1 at 2.8 ms. In a backward that
  // begins at 0, bucket {1} travels from 3 to 8, {0} from 9 to 15. The next forward begins at 10,
  // waits at 10.4 until 15, updates, and waits for nothing else.
  expect_step(planned_step(kCompute, two_buckets(), {.cross_step = true}), 16.0 + 4.6);
}

TEST(PlannedStep, CrossStepGoesOnAfterABackwardWithoutOverlap) {
  // They leave at 10 and arrive at 15 and 21, {1} first, which is needed later.
  expect_step(planned_step(kCompute, two_buckets(), {.overlap = false, .cross_step = true}),
              16.0 + 10.6);
}

TEST(PlannedStep, CrossStepSendsFirstWhatIsNeededFirst) {
  // Both ready at 9: 0 goes before 1 although its bucket comes later.
  ComputeTimes late = kCompute;
  late.order = {{1, 9.0}, {0, 9.0}};
  const std::vector<PlannedBucket> buckets{{{1}, {{5.0, 0.0}}}, {{0}, {{1.0, 0.0}}}};
  // {0} until 10, {1} until 15. Forward begins at 10, updates 0 at 10.4 for 1 ms, then waits for 1,
  // needed at the same place, from 11.4 to 15.
  expect_step(planned_step(late, buckets, {.cross_step = true}), 16.0 + 3.6);
}

TEST(PlannedStep, AShardedOptimizersWeightsAreGatheredUnderTheNextForward) {
  // Backward's collectives end 15 ms after its beginning, the optimizer 2 ms later. Forward needs
  // the first weights after 0.4 ms, which arrive after 6, and the second, which arrive after 11,
  // 2.4 ms later.
  expect_step(planned_step(kCompute, two_buckets(), {.sharded = true}), 16.0 + 5.0 + 5.6 + 2.6);
}

TEST(PlannedStep, IsBoundByTheNetworkInTheEnd) {
  const std::vector<PlannedBucket> slow{{{1}, {{50.0, 0.0}}}, {{0}, {{60.0, 0.0}}}};
  const double step = planned_step(kCompute, slow, {.cross_step = true});
  EXPECT_GE(step, 110.0);
  EXPECT_LE(step, 110.0 + 16.0);
}

}  // namespace
}  // namespace brigade::apps
