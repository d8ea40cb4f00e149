#include "apps/report/timeline_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/apps/report/timeline_reading.h"

namespace brigade::apps {
namespace {

using test::all_matches;
using test::Block;
using test::blocks;
using test::count;
using test::overlapping_step;
using test::run_trace;
using test::started_at;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// The width of the plot in pixels is 1054, so on this scale a millisecond is ten of them.
constexpr double kScale = 105.4;
constexpr double kZero = 132.0;

/// Begin and end of blocks in ms on the common clock, if the picture was drawn on kScale.
std::vector<Interval> times(const std::string& svg, const std::string& style) {
  std::vector<Interval> found;
  for (const Block& block : blocks(svg, style)) {
    const double begin = (block.x - kZero) / 10.0;
    found.push_back({begin, begin + block.width / 10.0});
  }
  return found;
}

MATCHER_P2(IsFromTo, begin, end, "") {
  return std::abs(arg.begin - begin) < 1e-3 && std::abs(arg.end - end) < 1e-3;
}

TEST(TimelineSvg, BlocksLieAtTheirTimes) {
  const std::string svg = timeline_svg(run_trace({{overlapping_step()}}), kScale);
  EXPECT_THAT(times(svg, "forward"), ElementsAre(IsFromTo(0, 4)));
  EXPECT_THAT(times(svg, "backward"), ElementsAre(IsFromTo(4, 10))) << "waits are cut out";
  EXPECT_THAT(times(svg, "idle"), ElementsAre(IsFromTo(10, 12)));
  EXPECT_THAT(times(svg, "optimizer"), ElementsAre(IsFromTo(12, 13)));
  EXPECT_THAT(times(svg, "collective"), ElementsAre(IsFromTo(6, 8), IsFromTo(7, 12)));
}

TEST(TimelineSvg, TheAxisIsTheScaleOfTheBlocks) {
  const std::string svg = timeline_svg(run_trace({{overlapping_step()}}), kScale);
  const std::regex tick(R"re(<text class="small muted middle" x="([\d.]+)" y="[\d.]+">(\d+)<)re");
  const std::vector<std::smatch> ticks = all_matches(svg, tick);
  ASSERT_EQ(ticks.size(), 11U) << "0, 10, ... 100";
  for (const std::smatch& match : ticks) {
    EXPECT_NEAR(std::stod(match[1]), kZero + 10.0 * std::stod(match[2]), 0.01);
  }
}

TEST(TimelineSvg, RanksAndStepsShareTheCommonClock) {
  const RunTrace trace =
      run_trace({{started_at(-1, overlapping_step()), started_at(20, overlapping_step())},
                 {started_at(0.5, overlapping_step()), started_at(21, overlapping_step())}});
  EXPECT_THAT(time_window(trace), IsFromTo(-1, 34));
  const std::string svg = timeline_svg(trace, kScale);
  EXPECT_THAT(times(svg, "forward"),
              ElementsAre(IsFromTo(0, 4), IsFromTo(21, 25), IsFromTo(1.5, 5.5), IsFromTo(22, 26)));
  const std::string second = timeline_svg(trace, kScale, {.first = 1, .count = 1});
  EXPECT_THAT(times(second, "forward"), ElementsAre(IsFromTo(0, 4), IsFromTo(1, 5)));
  EXPECT_EQ(count(svg, "class=\"border\""), 8U) << "begin and end of two steps on two ranks";
}

TEST(TimelineSvg, ExposedIsHatchedExactlyWhereNothingComputes) {
  const StepSpans step = overlapping_step();
  const std::string svg = timeline_svg(run_trace({{step}}), kScale);
  EXPECT_THAT(times(svg, "exposed"), ElementsAre(IsFromTo(10, 12)));
  EXPECT_DOUBLE_EQ(times_of(step).exposed, 2.0) << "the number printed below the picture";

  StepSpans hidden = overlapping_step();
  hidden.waits.clear();
  EXPECT_THAT(times(timeline_svg(run_trace({{hidden}}), kScale), "exposed"), testing::IsEmpty());
}

TEST(TimelineSvg, CommunicationAfterTheStepIsExposed) {
  StepSpans step = overlapping_step();
  step.collectives[1].end = 15;
  const std::string svg = timeline_svg(run_trace({{step}}), kScale);
  EXPECT_THAT(times(svg, "exposed"), ElementsAre(IsFromTo(10, 12), IsFromTo(13, 15)));
  EXPECT_THAT(time_window(run_trace({{step}})), IsFromTo(0, 15));
}

TEST(TimelineSvg, WaitingForTheLastRankIsNotTransfer) {
  StepSpans late = overlapping_step();
  late.collectives[0].begin = 7;
  const std::string svg = timeline_svg(run_trace({{overlapping_step()}, {late}}), kScale);
  EXPECT_THAT(times(svg, "waiting"), ElementsAre(IsFromTo(6, 7)));
  EXPECT_THAT(times(svg, "transfer"),
              ElementsAre(IsFromTo(7, 8), IsFromTo(7, 12), IsFromTo(7, 8), IsFromTo(7, 12)));
}

TEST(TimelineSvg, CollectivesInFlightTogetherDoNotOverlap) {
  StepSpans step = overlapping_step();
  step.collectives.push_back({8, 8, 9, 4});  // begins when the first has ended
  step.labels.emplace_back("bucket_2");
  const std::vector<Block> found = blocks(timeline_svg(run_trace({{step}}), kScale), "collective");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_GE(found[1].y, found[0].y + found[0].height);
  EXPECT_EQ(found[2].y, found[0].y);
}

TEST(TimelineSvg, RanksLieBelowEachOther) {
  const std::string svg =
      timeline_svg(run_trace({{overlapping_step()}, {overlapping_step()}}), kScale);
  const std::vector<Block> tracks = blocks(svg, "track");  // compute, comm, compute, comm
  ASSERT_EQ(tracks.size(), 4U);
  for (std::size_t i = 1; i < tracks.size(); ++i) {
    EXPECT_GT(tracks[i].y, tracks[i - 1].y + tracks[i - 1].height) << i;
  }
  EXPECT_LE(blocks(svg, "collective")[1].y + blocks(svg, "collective")[1].height,
            tracks[1].y + tracks[1].height + 0.11);
}

TEST(TimelineSvg, IdleIsSummedOverSteps) {
  const std::string svg =
      timeline_svg(run_trace({{overlapping_step(), started_at(20, overlapping_step())}}), kScale);
  EXPECT_THAT(svg, HasSubstr(">idle 4.00 ms<"));
}

TEST(TimelineSvg, HoverTextHasTheNumbersOfACollective) {
  StepSpans late = overlapping_step();
  late.collectives[1].begin = 8;
  const std::string svg = timeline_svg(run_trace({{overlapping_step()}, {late}}), kScale);
  EXPECT_THAT(svg, HasSubstr("<title>bucket_1\nrank 0, step 7\nbegin 7.00 ms · duration 5.00 ms\n"
                             "4.000 MiB · 0.839 GB/s\nready at 7.00 ms, queued for 0 ms\n"
                             "waiting for the last rank 1.00 ms · transfer 4.00 ms\n"
                             "exposed 2.00 ms</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>forward\nrank 1, step 7\nbegin 0 ms · duration 4.00 ms<"));
}

TEST(TimelineSvg, LayersLieBelowTheirPhaseAndBearNamesWhereThereIsRoom) {
  StepSpans step = overlapping_step();
  step.scopes = {{"load batch", Lane::data, 0, -3, -1},
                 {"forward", Lane::compute, 0, 0, 4},
                 {"layer 0 Linear(784, 512)", Lane::compute, 1, 0, 3},
                 {"backward", Lane::compute, 0, 4, 12},
                 {"linear 0.weight", Lane::compute, 1, 4, 12}};
  const RunTrace trace = run_trace({{step, started_at(20, step)}});
  const std::string svg = timeline_svg(trace, kScale);
  EXPECT_THAT(times(svg, "layer"),
              ElementsAre(IsFromTo(0, 3), IsFromTo(4, 10), IsFromTo(20, 23), IsFromTo(24, 30)));
  const Block backward = blocks(svg, "backward")[0];
  EXPECT_GE(blocks(svg, "layer")[1].y, backward.y + backward.height);
  EXPECT_THAT(svg, Not(HasSubstr(">linear 0.weight</text>")));

  const std::string enlarged = timeline_svg(trace, 13.0, {.first = 0, .count = 1});
  EXPECT_THAT(enlarged, HasSubstr(">layer 0 Linear(784, 512)</text>"));
}

TEST(TimelineSvg, LabelsThatDoNotFitAreShortenedOrLeftOut) {
  const RunTrace trace = run_trace({{overlapping_step()}});
  EXPECT_THAT(timeline_svg(trace, 40.0), HasSubstr(">bucket_1</text>"));  // 132 pixels
  EXPECT_THAT(timeline_svg(trace, 200.0), HasSubstr(">1</text>"));        // 26 pixels
  EXPECT_THAT(timeline_svg(trace, 2000.0), Not(HasSubstr(">1</text>")));  // 3 pixels
}

TEST(MsText, HasFewerDecimalsTheMoreThereAre) {
  EXPECT_EQ(ms_text(0.0), "0");
  EXPECT_EQ(ms_text(0.1234), "0.123");
  EXPECT_EQ(ms_text(1.234), "1.23");
  EXPECT_EQ(ms_text(9.999), "10.0");
  EXPECT_EQ(ms_text(1234.56), "1234.6");
}

}  // namespace
}  // namespace brigade::apps
