#include "apps/timing_summary.h"

#include <gtest/gtest.h>

#include "tests/support/thread_world.h"

namespace brigade::apps {
namespace {

/// `count` steps whose times are `first`, `first` + 1, ...
TimingHistory history(double first, std::size_t count) {
  TimingHistory result;
  for (std::size_t i = 0; i < count; ++i) {
    StepTimes times;
    times.step = first + static_cast<double>(i);
    times.forward = first;
    times.comm = 4.0;
    times.hidden = 3.0;
    result.steps.push_back(times);
    result.collectives.push_back({{1, 2, first, 64}});
  }
  return result;
}

TEST(Quantile, InterpolatesBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({1, 2, 3}, 0.5), 2.0);
  EXPECT_DOUBLE_EQ(quantile({10, 20}, 0.95), 19.5);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.1), 7.0);
  EXPECT_DOUBLE_EQ(quantile({}, 0.5), 0.0);
}

TEST(TimingSummary, TakesTheSlowestRankAndLeavesOutWarmUp) {
  test::thread_world(2, [](dist::Communicator& comm) {
    TimingHistory mine = history(comm.rank() == 0 ? 10.0 : 20.0, 20);
    mine.steps[0].step = 1000.0;
    const TimingSummary summary = summarize(mine, 1, comm);
    EXPECT_EQ(summary.measured_steps, 19U);
    EXPECT_EQ(summary.slowest_rank, 1);
    EXPECT_DOUBLE_EQ(summary.step, 30.0);  // median of 21 ... 39
    EXPECT_DOUBLE_EQ(summary.median.forward, 20.0);
    EXPECT_TRUE(summary.communicates);
    EXPECT_DOUBLE_EQ(summary.hidden_fraction, 0.75);
    ASSERT_EQ(summary.collectives.size(), 1U);
    EXPECT_DOUBLE_EQ(summary.collectives[0].end, 20.0);
  });
}

TEST(TimingSummary, WarmUpIsAtMostAQuarterOfAShortRun) {
  test::thread_world(1, [](dist::Communicator& comm) {
    EXPECT_EQ(summarize(history(1.0, 8), 5, comm).measured_steps, 6U);
    EXPECT_EQ(summarize(history(1.0, 1), 5, comm).measured_steps, 1U);
  });
}

TEST(TimingSummary, HasNoCollectivesWhenStepsDiffer) {
  test::thread_world(1, [](dist::Communicator& comm) {
    TimingHistory mine = history(1.0, 2);
    mine.collectives[1].push_back({});
    EXPECT_TRUE(summarize(mine, 0, comm).collectives.empty());
  });
}

}  // namespace
}  // namespace brigade::apps
