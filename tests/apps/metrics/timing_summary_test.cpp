#include "apps/metrics/timing_summary.h"

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
    EXPECT_DOUBLE_EQ(summary.step, 30.0);  // median of 21 ... 39
    EXPECT_DOUBLE_EQ(summary.step_p10, 22.8);
    EXPECT_DOUBLE_EQ(summary.step_p90, 37.2);
    EXPECT_DOUBLE_EQ(summary.step_p95, 38.1);
    EXPECT_DOUBLE_EQ(summary.median.forward, 19.0);  // without the millisecond of waiting
    EXPECT_DOUBLE_EQ(summary.median.comm, 4.0);
    EXPECT_TRUE(summary.communicates);
    EXPECT_DOUBLE_EQ(summary.hidden_fraction, 0.75);
    EXPECT_DOUBLE_EQ(summary.samples_per_second, 1e3 * kSamples / 30.0);
    ASSERT_EQ(summary.collectives.size(), 1U);
    EXPECT_DOUBLE_EQ(summary.collectives[0].end, 5.0);
  });
}

// Medians of the same steps: comm 10, hidden 0, and 1 - exposed / comm = 0.
TEST(HiddenFraction, IsASumOfStepsOverASumOfStepsAndNotARatioOfMedians) {
  const std::vector<StepTimes> steps{{.comm = 10, .hidden = 0, .exposed = 10},
                                     {.comm = 10, .hidden = 9, .exposed = 1},
                                     {.comm = 10, .hidden = 0, .exposed = 10}};
  EXPECT_DOUBLE_EQ(hidden_fraction(steps), 0.3);
  EXPECT_EQ(hidden_fraction({}), 0.0);
  EXPECT_EQ(hidden_fraction(std::vector<StepTimes>(2)), 0.0) << "no communication";
}

// Rank 1 is the slowest: it hides 3 ms of 4 in one of its three steps.
TEST(HiddenFraction, OfARunIsThatOfTheSlowestRank) {
  test::thread_world(2, [](dist::Communicator& comm) {
    TimingHistory mine;
    for (int step = 0; step < 3; ++step) {
      StepSpans spans;
      const double end = comm.rank() == 1 ? 10 : 5;
      spans.optimizer = {end, end};
      spans.collectives = {{.ready = 0, .begin = 0, .end = 4, .bytes = 64}};
      spans.waits = {{comm.rank() == 1 && step == 1 ? 3.0 : 0.0, 4.0}};
      mine.add(spans, kSamples);
    }
    const TimingSummary summary = summarize(mine, 0, comm);
    EXPECT_EQ(summary.slowest_rank, 1);
    EXPECT_DOUBLE_EQ(summary.hidden_fraction, 0.25);
    EXPECT_EQ(summary.median.hidden, 0.0);
  });
}

TEST(TimingSummary, NamesTheRankThatTheOthersWaitFor) {
  test::thread_world(3, [](dist::Communicator& comm) {
    // Less the millisecond of waiting, medians of 9.5, 19.5 and 10.5.
    const double begin[] = {6.0, 16.0, 7.0};
    const TimingSummary summary = summarize(history(begin[comm.rank()], 10), 0, comm);
    EXPECT_EQ(summary.rank_compute, (std::vector<double>{9.5, 19.5, 10.5}));
    ASSERT_TRUE(summary.straggler.has_value());
    EXPECT_EQ(summary.straggler->rank, 1);
    EXPECT_EQ(summary.straggler->reason, Straggler::Reason::compute);
    EXPECT_DOUBLE_EQ(summary.straggler->ms, 19.5);
    EXPECT_DOUBLE_EQ(summary.straggler->others, 10.0);
    EXPECT_DOUBLE_EQ(summary.straggler->share, 1.0);
  });
}

/// Ten steps whose batches took `load` ms, but the first `exceptions` of them.
TimingHistory loads(double load, int exceptions) {
  TimingHistory result;
  for (int step = 0; step < 10; ++step) {
    StepSpans spans;
    spans.load = step < exceptions ? 0.0 : load;
    spans.optimizer = {0.0, 5.0};
    result.add(spans, kSamples);
  }
  return result;
}

TEST(TimingSummary, NamesTheRankWhoseDataIsLateAndHowOften) {
  test::thread_world(3, [](dist::Communicator& comm) {
    const double load[] = {0.5, 0.75, 8.0};
    const TimingSummary summary =
        summarize(loads(load[comm.rank()], comm.rank() == 2 ? 2 : 0), 0, comm);
    EXPECT_EQ(summary.rank_load, (std::vector<double>{0.5, 0.75, 8.0}));
    ASSERT_TRUE(summary.straggler.has_value());
    EXPECT_EQ(summary.straggler->rank, 2);
    EXPECT_EQ(summary.straggler->reason, Straggler::Reason::data);
    EXPECT_DOUBLE_EQ(summary.straggler->ms, 8.0);
    EXPECT_DOUBLE_EQ(summary.straggler->others, 0.625);
    EXPECT_NEAR(summary.straggler->share, 0.8, 1e-9);
  });
}

TEST(TimingSummary, ARankThatDiffersLittleOrSeldomIsNoStraggler) {
  test::thread_world(2, [](dist::Communicator& comm) {
    const double other = comm.rank() == 0 ? 100.0 : 120.0;
    EXPECT_FALSE(summarize(history(other, 10), 0, comm).straggler.has_value());
    const double once = comm.rank() == 0 ? 10.0 : 40.0;
    EXPECT_FALSE(summarize(history(once, 3), 0, comm).straggler.has_value()) << "too few steps";
    EXPECT_TRUE(summarize(history(once, 4), 0, comm).straggler.has_value());
    const double brief = comm.rank() == 0 ? 2.0 : 7.0;
    EXPECT_FALSE(summarize(history(brief, 9), 0, comm).straggler.has_value()) << "45 ms in all";
    EXPECT_TRUE(summarize(history(brief, 10), 0, comm).straggler.has_value());
    TimingHistory seldom;
    for (int step = 0; step < 10; ++step) {
      StepSpans spans;
      const bool disturbed = comm.rank() == 1 && step < 6;
      spans.optimizer = {0.0, disturbed ? 30.0 : 10.0};
      seldom.add(spans, kSamples);
    }
    const TimingSummary summary = summarize(seldom, 0, comm);
    EXPECT_EQ(summary.rank_compute, (std::vector<double>{10.0, 30.0}));
    EXPECT_FALSE(summary.straggler.has_value());
  });
  test::thread_world(1, [](dist::Communicator& comm) {
    EXPECT_FALSE(summarize(history(5.0, 4), 0, comm).straggler.has_value());
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
  EXPECT_DOUBLE_EQ(mine.steps().front().times.step, static_cast<double>(TimingHistory::kKept));
  test::thread_world(1, [&](dist::Communicator& comm) {
    EXPECT_EQ(summarize(mine, 5, comm).measured_steps, mine.steps().size())
        << "the warm-up is among the forgotten ones";
  });
}

TEST(SamplesPerSecond, CountsTheSamplesOfSmallerBatchesAsTheyAre) {
  const std::vector<TimedStep> steps{{{}, {}, 128}, {{}, {}, 128}, {{}, {}, 64}};
  EXPECT_DOUBLE_EQ(samples_per_second(steps, 10.0), 320e3 / 3.0 / 10.0);
  EXPECT_DOUBLE_EQ(samples_per_second({}, 0.0), 0.0);
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
