#include "apps/timing_summary.h"

#include <gtest/gtest.h>

#include "tests/support/thread_world.h"

namespace brigade::apps {
namespace {

constexpr double kSamples = 6.0;

/// `count` steps whose times are `first`, `first` + 1, ...
TimingHistory history(double first, std::size_t count) {
  TimingHistory result;
  for (std::size_t i = 0; i < count; ++i) {
    StepSpans spans;
    spans.forwards = {{0, first}};
    spans.waits = {{2, 3}};
    spans.optimizer = {first, first + static_cast<double>(i)};
    spans.collectives = {{.ready = 0.5, .begin = 1, .end = 5, .bytes = 64}};
    result.add(spans, kSamples);
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
    const TimingHistory mine = history(comm.rank() == 0 ? 10.0 : 20.0, 20);
    const TimingSummary summary = summarize(mine, 1, comm);
    EXPECT_EQ(summary.measured_steps, 19U);
    EXPECT_EQ(summary.slowest_rank, 1);
    EXPECT_DOUBLE_EQ(summary.step, 30.0);            // median of 21 ... 39
    EXPECT_DOUBLE_EQ(summary.median.forward, 19.0);  // without the millisecond of waiting
    EXPECT_DOUBLE_EQ(summary.median.comm, 4.0);
    EXPECT_TRUE(summary.communicates);
    EXPECT_DOUBLE_EQ(summary.hidden_fraction, 0.75);
    EXPECT_DOUBLE_EQ(summary.samples_per_second, 1e3 * kSamples / 30.0);
    ASSERT_EQ(summary.collectives.size(), 1U);
    EXPECT_DOUBLE_EQ(summary.collectives[0].end, 5.0);
  });
}

TEST(TimingSummary, WarmUpIsAtMostAQuarterOfAShortRun) {
  test::thread_world(1, [](dist::Communicator& comm) {
    EXPECT_EQ(summarize(history(1.0, 8), 5, comm).measured_steps, 6U);
    EXPECT_EQ(summarize(history(1.0, 1), 5, comm).measured_steps, 1U);
  });
}

TEST(TimingHistory, ForgetsTheOldestStepsOfALongRun) {
  const TimingHistory mine = history(0.0, 5 * TimingHistory::kKept / 2);
  EXPECT_EQ(mine.steps().size(), 3 * TimingHistory::kKept / 2);
  EXPECT_EQ(mine.collectives().size(), mine.steps().size());
  EXPECT_DOUBLE_EQ(mine.steps().front().step, static_cast<double>(TimingHistory::kKept));
  test::thread_world(1, [&](dist::Communicator& comm) {
    EXPECT_EQ(summarize(mine, 5, comm).measured_steps, mine.steps().size())
        << "the warm-up is among the forgotten ones";
  });
}

TEST(SamplesPerSecond, CountsTheSamplesOfSmallerBatchesAsTheyAre) {
  EXPECT_DOUBLE_EQ(samples_per_second(std::vector<double>{128, 128, 64}, 10.0), 320e3 / 3.0 / 10.0);
  EXPECT_DOUBLE_EQ(samples_per_second(std::vector<double>{}, 0.0), 0.0);
}

TEST(TimingSummary, HasNoCollectivesWhenStepsDiffer) {
  test::thread_world(1, [](dist::Communicator& comm) {
    TimingHistory mine = history(1.0, 2);
    StepSpans spans;
    spans.collectives.resize(2);
    mine.add(spans, kSamples);
    EXPECT_TRUE(summarize(mine, 0, comm).collectives.empty());
  });
}

}  // namespace
}  // namespace brigade::apps
