#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "apps/compare/comparison_report.h"
#include "apps/compare/reading.h"

namespace brigade::apps {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

CollectiveTimes collective(double ready, double begin, double end) {
  return {.ready = ready, .begin = begin, .end = end, .bytes = 4U << 20U};
}

ModeResult mode(const std::string& name, double step) {
  ModeResult result;
  result.mode = name;
  result.timing.step = step;
  result.timing.step_p10 = step;
  result.timing.step_p90 = step;
  result.timing.communicates = true;
  result.timing.samples_per_second = 1e5 / step;
  result.traffic.collectives = 2;
  result.traffic.bytes_reduced = 8U << 20U;
  result.timing.median.forward = 10;
  result.timing.median.backward = 20;
  result.timing.median.optimizer = 1;
  result.timing.median.step = step;
  return result;
}

/// Backward ends at 30 ms; two buckets, ready at 20 and 30, of 12 ms each.
Comparison two_buckets() {
  Comparison comparison;
  comparison.modes = {mode("naive", 55), mode("flat", 55), mode("overlap", 46)};
  comparison.modes[1].timing.collectives = {collective(30, 30, 42), collective(30, 42, 54)};
  ModeResult& overlap = comparison.modes[2];
  overlap.timing.collectives = {collective(20, 20, 33), collective(30, 33, 45)};
  overlap.timing.median.comm = 25;
  overlap.timing.median.exposed = 15;
  overlap.timing.hidden_fraction = 0.4;
  overlap.timing.median.backward = 22;
  StepSpans spans;
  spans.labels = {"bucket_0", "bucket_1"};
  overlap.trace.contents = {{"bucket_1", "0.bias, 0.weight"}};
  overlap.trace.ranks.push_back({.rank = 0, .host = "", .clock_error_ms = 0, .steps = {}});
  overlap.trace.ranks[0].steps.push_back({1, spans});
  comparison.ideal = mode("no communication", 31);
  comparison.ideal.timing.collectives = {collective(20, 20, 20), collective(30, 30, 30)};
  comparison.alone_samples_per_second = 2000;
  comparison.ideal.timing.measured_steps = 45;
  return comparison;
}

RunInfo two_ranks() {
  RunInfo info;
  info.ranks.size = 2;
  info.ranks.hosts = 2;
  info.comm = "MPI";
  return info;
}

TEST(Check, PassesOnlyWeightsThatAreThoseOfAllTheOthers) {
  constexpr double kTolerance = 1e-6;
  ModeResult good;
  good.against_first = good.against_one_rank = kTolerance;
  EXPECT_TRUE(passes(good, kTolerance));
  ModeResult bad = good;
  bad.weights.equal = false;
  EXPECT_FALSE(passes(bad, kTolerance));
  for (double ModeResult::*difference :
       {&ModeResult::against_first, &ModeResult::against_one_rank}) {
    for (const double value : {2 * kTolerance, std::numeric_limits<double>::quiet_NaN()}) {
      bad = good;
      bad.*difference = value;
      EXPECT_FALSE(passes(bad, kTolerance)) << value;
    }
  }
}

TEST(Bound, StartsABucketWhenItIsReadyAndTheOneBeforeHasArrived) {
  // start_0 = 20, end_0 = 32; start_1 = max(30, 32), end_1 = 44; + optimizer 1
  EXPECT_DOUBLE_EQ(bound_ms(two_ranks(), two_buckets()), 45.0);
  Comparison fast = two_buckets();
  fast.modes[1].timing.collectives = {collective(30, 30, 31), collective(30, 31, 32)};
  EXPECT_DOUBLE_EQ(bound_ms(two_ranks(), fast), 32.0) << "end_1 = 31 is after backward's end, 30";
}

TEST(Bound, IsUnknownWithoutFlatAndWithSeveralMicroBatches) {
  Comparison comparison = two_buckets();
  RunInfo info = two_ranks();
  info.options.accum = 2;
  EXPECT_EQ(bound_ms(info, comparison), 0.0);
  comparison.modes.erase(comparison.modes.begin() + 1);
  EXPECT_EQ(bound_ms(two_ranks(), comparison), 0.0);
}

TEST(BucketGrid, HasTheBucketsOfOverlapInTheOrderInWhichTheyLeft) {
  Comparison comparison = two_buckets();
  const TextGrid grid = bucket_grid(comparison);
  ASSERT_EQ(grid.size(), 3U);
  EXPECT_THAT(grid[2],
              testing::ElementsAre("0.bias, 0.weight", "4.000", "30.00", "33.00", "45.00"));
  comparison.modes.clear();
  EXPECT_TRUE(bucket_grid(comparison).empty());
}

TEST(Reading, SaysWhatIsExposedAndWhatTheBestCouldBe) {
  const std::vector<std::string> lines = reading(two_ranks(), two_buckets());
  EXPECT_THAT(lines, Contains(HasSubstr("overlap hides 40 % of its 25.00 ms")));
  EXPECT_THAT(lines,
              Contains(HasSubstr(
                  "The last to arrive is bucket_1 (0.bias, 0.weight; 4.00 MiB): ready at 30.00 "
                  "ms, sent at 33.00, there at 45.00")));
  EXPECT_THAT(
      lines,
      Contains(HasSubstr("Beside communication backward takes 22.00 ms, without it 20.00.")));
  EXPECT_THAT(lines, Contains(HasSubstr("the link is a limit"))) << "25 ms against 20 of backward";
  // (55 - 46) / (55 - 45)
  EXPECT_THAT(lines, Contains(HasSubstr("45.00 ms: overlap reaches 90 %")));
  EXPECT_THAT(lines, Contains(HasSubstr("1.09 times as many")));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("something else may run"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("share this host's memory"))));
}

TEST(Reading, SaysThatOverlapGainsNothingWhereItIsSlower) {
  Comparison comparison = two_buckets();
  comparison.modes[2].timing.step = 57;
  EXPECT_THAT(
      reading(two_ranks(), comparison),
      Contains(HasSubstr("overlap is slower than naive by 20 % of what naive leaves to gain")));
}

TEST(Table, ComparesStepsWithTheFirstModesAndCountsMebibytes) {
  Comparison comparison = two_buckets();
  comparison.modes[2].traffic.bytes_sent = 3U << 19U;
  comparison.modes[0].timing.median.wait = 22;  // of 55
  const TextGrid grid = grid_of("mode", comparison_rows(two_ranks(), comparison));
  ASSERT_EQ(grid.size(), 5U);
  const auto cell = [&grid](std::size_t row, const std::string& column) {
    const auto found = std::find(grid[0].begin(), grid[0].end(), column);
    return grid[row].at(static_cast<std::size_t>(found - grid[0].begin()));
  };
  EXPECT_EQ(cell(1, "speed-up"), "1.00");
  EXPECT_EQ(cell(3, "speed-up"), "1.20") << "55 / 46";
  EXPECT_EQ(cell(4, "speed-up"), "1.77") << "55 / 31";
  EXPECT_EQ(cell(1, "compute %"), "60");
  EXPECT_EQ(cell(3, "hidden %"), "40");
  EXPECT_EQ(cell(3, "MiB/rank"), "8.00");
  EXPECT_EQ(cell(3, "sent"), "1.50");
  EXPECT_EQ(cell(4, "MiB/rank"), "-");
}

TEST(Json, HasTheFiguresOfTheTableAndNullForWhatTheIdealHasNot) {
  const auto json = nlohmann::json::parse(comparison_json(two_ranks(), two_buckets()));
  ASSERT_EQ(json["modes"].size(), 3U);
  EXPECT_EQ(json["modes"][2]["mode"], "overlap");
  EXPECT_EQ(json["modes"][2]["exposed_ms"], 15);
  EXPECT_EQ(json["modes"][2]["hidden_fraction"], 0.4);
  EXPECT_EQ(json["modes"][2]["bytes_per_step"], 8U << 20U);
  EXPECT_EQ(json["ideal"]["step_ms"], 31);
  EXPECT_TRUE(json["ideal"]["comm_ms"].is_null());
  EXPECT_TRUE(json["ideal"]["ranks_equal"].is_null());
  EXPECT_EQ(json["bound_ms"], 45);
}

TEST(Notes, NameTheLargestDifferenceEvenIfItIsNotANumber) {
  Comparison comparison = two_buckets();
  comparison.modes[1].against_first = 2e-6;
  comparison.modes[2].against_first = 1e-6;
  comparison.modes[1].against_one_rank = std::numeric_limits<double>::quiet_NaN();
  comparison.modes[2].against_one_rank = 1e-6;
  comparison.equal = false;
  EXPECT_THAT(comparison_notes(two_ranks(), comparison),
              Contains(HasSubstr("NOT EQUAL: after 0 steps: ranks bit-equal; modes differ by "
                                 "2.0e-06 (relative L2); all ranks together and one rank alone "
                                 "differ by nan (relative L2)")));
}

TEST(Reading, AdvisesSmallerBucketsWhereTheLinkHasRoom) {
  Comparison comparison = two_buckets();
  comparison.modes[2].timing.median.comm = 12;
  comparison.modes[2].timing.collectives[0].begin = 25;
  comparison.modes[2].trace.contents["bucket_0"] = "2.bias, 2.weight";
  const std::vector<std::string> lines = reading(two_ranks(), comparison);
  EXPECT_THAT(lines, Contains(HasSubstr("when 75 % of backward was over; --bucket-mb 2 starts "
                                        "earlier and leaves less")));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("the link is a limit"))));
  comparison.modes[2].timing.collectives[1].bytes = 64U << 20U;
  comparison.modes[2].trace.contents["bucket_1"] = "0.weight";
  EXPECT_THAT(reading(two_ranks(), comparison), Contains(HasSubstr("--bucket-mb 2 starts earlier")))
      << "half of the largest that can be split";
  comparison.modes[2].trace.contents["bucket_0"] = "2.weight";
  EXPECT_THAT(reading(two_ranks(), comparison),
              Contains(HasSubstr("over; it holds one parameter, so a smaller --bucket-mb would "
                                 "not split it.")));
  comparison.modes[2].timing.collectives[0].begin = 14;
  EXPECT_THAT(reading(two_ranks(), comparison),
              Contains(HasSubstr("when 20 % of backward was over.")));
}

TEST(Reading, SaysWhatNoSyncSavesAndGains) {
  Comparison comparison = two_buckets();
  comparison.modes.push_back(mode("no_sync", 23));
  comparison.modes.back().traffic.bytes_reduced = 4U << 20U;
  EXPECT_THAT(reading(two_ranks(), comparison),
              Contains(HasSubstr("no_sync sends 4.00 MiB per step instead of 8.00 and is 2.00 "
                                 "times as fast.")))
      << "46 / 23";
}

TEST(Reading, CountsFromTheFirstMicroBatchWhereEachSynchronises) {
  Comparison comparison = two_buckets();
  comparison.modes[2].timing.median.comm = 12;
  comparison.modes[2].timing.collectives[0].begin = 10;  // forward 10 and backward 20 are of two
  RunInfo info = two_ranks();
  info.options.accum = 2;
  EXPECT_THAT(reading(info, comparison), Contains(HasSubstr("when 50 % of backward was over")));
}

TEST(Reading, OfASlowRankDoesNotBlameTheLink) {
  Comparison comparison = two_buckets();
  comparison.ideal.timing.straggler = Straggler{.rank = 1, .ms = 60, .others = 30};
  const std::vector<std::string> lines = reading(two_ranks(), comparison);
  EXPECT_THAT(lines, Contains(HasSubstr("Rank 1 computes 60.00 ms per step, the others 30.00")));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("the link is a limit"))));
}

TEST(Reading, DistrustsAMachineThatIsBusyWithSomethingElse) {
  Comparison comparison = two_buckets();
  comparison.modes[0].timing.step_p90 = 200;
  EXPECT_THAT(reading(two_ranks(), comparison), Contains(HasSubstr("something else may run")));
  EXPECT_THAT(reading(two_ranks(), comparison), Not(Contains(HasSubstr("perfect reducer"))));
  comparison = two_buckets();
  comparison.ideal.timing.measured_steps = 2;
  EXPECT_THAT(reading(two_ranks(), comparison), Contains(HasSubstr("too few to tell")));
}

TEST(Reading, OfOneHostSaysThatCommunicationSharesTheCores) {
  RunInfo info = two_ranks();
  info.ranks.hosts = 1;
  EXPECT_THAT(reading(info, two_buckets()), Contains(HasSubstr("share this host's memory")));
  info.options.emulated_link = dist::LinkModel{.alpha_us = 50, .gigabytes_per_s = 1};
  EXPECT_THAT(reading(info, two_buckets()), Not(Contains(HasSubstr("share this host's memory"))));
}

}  // namespace
}  // namespace brigade::apps
