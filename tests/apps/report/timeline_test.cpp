#include "apps/report/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/report/timeline_svg.h"
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
using testing::HasSubstr;
using testing::Not;

TEST(TimelinePage, CaptionHasTheMediansOfTheSlowestRank) {
  StepSpans slower = overlapping_step();  // 14 ms, of which 3 exposed
  slower.waits = {{10, 13}};
  slower.collectives[1].end = 13;
  slower.optimizer = {13, 14};
  RunTrace trace = run_trace({{overlapping_step()}, {slower}});
  trace.ranks[1].clock_error_ms = 0.25;
  const std::string page = timeline_html("time line", {trace});
  const StepTimes expected = times_of(slower);
  ASSERT_DOUBLE_EQ(expected.exposed, 3.0);
  EXPECT_THAT(page, HasSubstr("Median of 1 recorded step, rank 1 (the slowest): "));
  EXPECT_THAT(page, HasSubstr("<b>step " + ms_text(expected.step) + " ms</b>, comm " +
                              ms_text(expected.comm) +
                              " ms, <b>exposed 3.00 ms</b>, "
                              "<b>hidden 57.1 %</b>. Clock error at most 0.250 ms."));
  EXPECT_THAT(page, HasSubstr("<td>13.0</td><td>4.00</td><td>6.00</td><td>1.00</td><td>2.00</td>"
                              "<td>6.00</td><td>4.00</td><td>2.00</td><td>66.7 %</td>"))
      << "rank 0: step, forward, backward, optimizer, idle, comm, hidden, exposed, hidden %";
}

TEST(TimelinePage, FiguresAreMediansOverSteps) {
  StepSpans longer = started_at(20, overlapping_step());
  longer.optimizer.end = 113;
  const std::string page = timeline_html(
      "t", {run_trace({{overlapping_step(), longer, started_at(140, overlapping_step())}})});
  EXPECT_THAT(page, HasSubstr("Median of 3 recorded steps, rank 0: <b>step 13.0 ms</b>"));
  EXPECT_THAT(page, HasSubstr("Step 7, enlarged")) << "one of those that took 13 ms";
}

TEST(TimelinePage, PanelsShareOneScale) {
  StepSpans twice = overlapping_step();
  twice.forwards = {{0, 8}};
  twice.optimizer = {12, 26};
  const std::string page =
      timeline_html("modes", {run_trace({{overlapping_step()}}), run_trace({{twice}})});
  const std::vector<Block> forwards = blocks(page, "forward");
  ASSERT_EQ(forwards.size(), 3U) << "one is in the key";
  EXPECT_NEAR(forwards[1].width, 4.0 * 1054.0 / 26.0, 0.01);
  EXPECT_NEAR(forwards[2].width, 8.0 * 1054.0 / 26.0, 0.01);
}

// Medians of the three steps would give 1 - 2 / 6 = 66.7 %.
TEST(TimelinePage, HiddenIsASumOfStepsOverASumOfSteps) {
  StepSpans exposed = overlapping_step();
  exposed.waits = {{6, 12}};
  const std::string page = timeline_html(
      "t", {run_trace({{overlapping_step(), exposed, started_at(20, overlapping_step())}})});
  EXPECT_THAT(page, HasSubstr("<b>hidden 44.4 %</b>")) << "(4 + 0 + 4) / (6 + 6 + 6)";
  EXPECT_THAT(page, HasSubstr("<td>44.4 %</td>"));
}

TEST(TimelinePage, LeavesBracesInTextsAlone) {
  RunTrace trace = run_trace({{overlapping_step()}});
  trace.title = "{{title}}";
  const std::string page = timeline_html("{{panels}}", {trace});
  EXPECT_THAT(page, HasSubstr("<h1>{{panels}}</h1>"));
  EXPECT_THAT(page, HasSubstr("<h2>{{title}}</h2>"));
  EXPECT_THAT(page, Not(HasSubstr("{{summary}}")));
}

TEST(TimelinePage, EscapesTextThatIsNotItsOwn) {
  RunTrace trace = run_trace({{overlapping_step()}});
  trace.title = "a < b & c";
  trace.caption = "emulated link <50 us>";
  trace.ranks[0].host = "\"h\"";
  trace.ranks[0].steps[0].spans.labels[1] = "<i>&";
  const std::string page = timeline_html("x < y", {trace});
  EXPECT_THAT(page, HasSubstr("<title>x &lt; y</title>"));
  EXPECT_THAT(page, HasSubstr("<h2>a &lt; b &amp; c</h2>"));
  EXPECT_THAT(page, HasSubstr("cpu · MPI · emulated link &lt;50 us&gt;"));
  EXPECT_THAT(page, HasSubstr("&quot;h&quot;"));
  EXPECT_THAT(page, HasSubstr("<title>&lt;i&gt;&amp;\n"));
  EXPECT_THAT(page, Not(HasSubstr("<i>")));
}

TEST(TimelinePage, SaysThatNothingWasRecorded) {
  const std::string page = timeline_html("t", {run_trace({{}, {}}), RunTrace{}});
  EXPECT_EQ(count(page, "No step was recorded."), 2U);
  EXPECT_THAT(timeline_svg(RunTrace{}, 0.0), HasSubstr("</svg>"));
}

TEST(TimelinePage, OneRankHasNoCommunication) {
  StepSpans alone = overlapping_step();
  alone.waits.clear();
  alone.collectives.clear();
  alone.labels.clear();
  const std::string page = timeline_html("t", {run_trace({{alone}})});
  EXPECT_THAT(page, HasSubstr("<b>step 13.0 ms</b>, no communication."));
  EXPECT_THAT(page, HasSubstr("<td>-</td>"));
}

TEST(TimelinePage, NeedsNothingFromElsewhereAndClosesWhatItOpens) {
  const StepSpans step = overlapping_step();
  const std::string page =
      timeline_html("t", {run_trace({{step, started_at(20, step)}, {step, started_at(20, step)}})});
  for (const char* foreign :
       {"http", "<script", "src=", "url(http", "url(\"", "@import", "<link", "onload"}) {
    EXPECT_THAT(page, Not(HasSubstr(foreign)));
  }
  for (const std::string tag : {"svg", "g", "title", "text", "section", "details", "div", "table",
                                "tr", "td", "th", "ul", "li", "dl", "dt", "dd", "p", "b"}) {
    const auto opened = all_matches(page, std::regex("<" + tag + "[ >]")).size();
    EXPECT_GT(opened, 0U) << tag;
    EXPECT_EQ(opened, count(page, "</" + tag + ">")) << tag;
  }
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(page, HasSubstr("@media print"));
}

}  // namespace
}  // namespace brigade::apps
