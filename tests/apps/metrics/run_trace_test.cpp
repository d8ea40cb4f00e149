#include "apps/metrics/run_trace.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "apps/metrics/step_recorder.h"
#include "apps/report/chrome_trace.h"
#include "core/runtime/context.h"
#include "tests/support/thread_world.h"

namespace brigade::apps {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;

/// One step of two ranks; rank 1 begins its only collective 2 ms later.
RunTrace two_ranks() {
  RunTrace trace{.title = "overlap, 2 ranks",
                 .device = "cpu",
                 .comm = "MPI",
                 .caption = "",
                 .contents = {{"bucket_0", "2.bias, 0.weight"}},
                 .ranks = {}};
  for (int rank = 0; rank < 2; ++rank) {
    StepSpans spans;
    spans.start = rank == 0 ? 0.0 : 1.0;
    const double begin = rank == 0 ? 5.0 : 6.0;  // on the common clock 5 and 7
    spans.optimizer = {12, 13};
    spans.collectives = {{.ready = 4, .begin = begin, .end = 10, .bytes = 1U << 20U}};
    spans.labels = {"bucket_0"};
    spans.waits = {{9, 10}};
    spans.scopes = {{"forward", Lane::compute, 0, 0, 3},
                    {"layer 0 ReLU()", Lane::compute, 1, 1, 2}};
    trace.ranks.push_back({.rank = rank, .host = "here", .clock_error_ms = 0, .steps = {}});
    trace.ranks.back().steps.push_back({7, spans});
  }
  return trace;
}

TEST(SplitCollective, WaitsUntilTheLastRankHasBegun) {
  const RunTrace trace = two_ranks();
  const CollectiveSplit first = split_collective(trace, 0, 0, 0);
  EXPECT_DOUBLE_EQ(first.waiting, 2.0);
  EXPECT_DOUBLE_EQ(first.transfer, 3.0);
  const CollectiveSplit last = split_collective(trace, 1, 0, 0);
  EXPECT_DOUBLE_EQ(last.waiting, 0.0);
  EXPECT_DOUBLE_EQ(last.transfer, 4.0);
}

TEST(SplitCollective, FindsItsPartnerInTheStepWhereThatBegan) {
  const auto step = [](double start, std::vector<std::string> labels,
                       std::vector<CollectiveTimes> collectives) {
    StepTrace trace;
    trace.spans.start = start;
    trace.spans.labels = std::move(labels);
    trace.spans.collectives = std::move(collectives);
    return trace;
  };
  RunTrace trace;
  trace.contents = {{"bucket_1", "0.weight"}};
  // On rank 0 bucket_1 begins at 95 in the first step, on rank 1 at 102 in the second.
  trace.ranks = {
      {.rank = 0,
       .host = "",
       .clock_error_ms = 0,
       .steps = {step(0, {"bucket_0", "bucket_1"}, {{50, 50, 60, 4}, {90, 95, 100, 4}}),
                 step(100, {"bucket_1 (goes on)", "bucket_0"}, {{-10, 0, 6, 4}, {50, 50, 60, 4}})}},
      {.rank = 1,
       .host = "",
       .clock_error_ms = 0,
       .steps = {step(0, {"bucket_0"}, {{50, 50, 60, 4}}),
                 step(100, {"bucket_1", "bucket_0"}, {{2, 2, 6, 4}, {50, 53, 60, 4}})}}};
  EXPECT_DOUBLE_EQ(split_collective(trace, 0, 0, 1).waiting, 5.0) << "7, of which it saw 5";
  EXPECT_DOUBLE_EQ(split_collective(trace, 0, 1, 0).waiting, 0.0);
  EXPECT_DOUBLE_EQ(split_collective(trace, 0, 1, 1).waiting, 3.0);
  EXPECT_DOUBLE_EQ(split_collective(trace, 1, 1, 0).waiting, 0.0);
  EXPECT_EQ(contents_of(trace, "bucket_1 (goes on)"), "0.weight");
}

TEST(ChromeTrace, HasALanePerKindAndAnArrowFromReadyOverLaunchToDone) {
  const auto json = nlohmann::json::parse(chrome_trace_json(two_ranks()));
  std::string arrows;
  int comm_spans = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["pid"] != 1) {
      continue;
    }
    if (event["ph"] == "s" || event["ph"] == "t" || event["ph"] == "f") {
      arrows += fmt::format("{}{} ", event["ph"].get<std::string>(), event["ts"].get<double>());
    }
    if (event["name"] == "allreduce_bucket_0" && event["ph"] == "X") {
      ++comm_spans;
      EXPECT_DOUBLE_EQ(event["ts"], 7000.0);
      EXPECT_DOUBLE_EQ(event["dur"], 4000.0);
      EXPECT_DOUBLE_EQ(event["args"]["MiB"], 1.0);
      EXPECT_EQ(event["args"]["parameters"], "2.bias, 0.weight");
      EXPECT_GE(event["tid"], 10);
    }
    if (event["name"] == "forward") {
      EXPECT_EQ(event["tid"], 0);
      EXPECT_DOUBLE_EQ(event["ts"], 1000.0);
    }
  }
  EXPECT_EQ(arrows, "s5000 t7000 f11000 ");
  EXPECT_EQ(comm_spans, 1);
}

TEST(ChromeTrace, GivesEachCollectiveItsAlgorithmBandwidth) {
  const auto json = nlohmann::json::parse(chrome_trace_json(two_ranks()));
  int seen = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["name"] == "allreduce_bucket_0" && event["ph"] == "X" && event["pid"] == 0) {
      ++seen;
      EXPECT_DOUBLE_EQ(event["args"]["algbw_GB_per_s"], 0x1p20 / 5e6) << "1 MiB in 5 ms";
      EXPECT_DOUBLE_EQ(event["args"]["waiting_for_other_ranks_ms"], 2.0);
      EXPECT_DOUBLE_EQ(event["args"]["transfer_ms"], 3.0);
    }
  }
  EXPECT_EQ(seen, 1);
}

TEST(ChromeTrace, GivesCollectivesInFlightTogetherLanesOfTheirOwn) {
  RunTrace trace = two_ranks();
  StepSpans& spans = trace.ranks[0].steps[0].spans;
  spans.collectives.push_back({.ready = 6, .begin = 9, .end = 12, .bytes = 4});
  spans.collectives.push_back({.ready = 10, .begin = 12, .end = 13, .bytes = 4});
  spans.labels = {"a", "b", "c"};
  const auto json = nlohmann::json::parse(chrome_trace_json(trace));
  std::map<std::string, int> lanes;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "X" && event["cat"] == "communication") {
      lanes.emplace(event["name"], event["tid"]);
    }
  }
  EXPECT_EQ(lanes["allreduce_a"], 10);
  EXPECT_EQ(lanes["allreduce_b"], 11) << "begins while a is in flight";
  EXPECT_EQ(lanes["allreduce_c"], 10) << "begins when a is done";
}

TEST(OperationTimes, AreWithoutTheOperationsInside) {
  StepSpans spans;
  spans.scopes = {{"load batch", Lane::data, 0, -3, -1},
                  {"forward", Lane::compute, 0, 0, 10},
                  {"layer 0 Linear(4, 4)", Lane::compute, 1, 1, 7},
                  {"layer 1 ReLU()", Lane::compute, 1, 7, 8},
                  {"backward", Lane::compute, 0, 10, 30},
                  {"linear 0.weight", Lane::compute, 1, 11, 25},
                  {"optimizer", Lane::optimizer, 0, 30, 32}};
  spans.waits = {{25, 29}};
  std::map<std::string, double> found;
  for (const OperationTime& operation : operation_times({{1, spans}, {2, spans}})) {
    found.emplace(operation.name, operation.ms);
  }
  const std::map<std::string, double> expected{
      {"forward", 3},  {"forward Linear", 6},        {"forward ReLU", 1}, {"backward linear", 14},
      {"backward", 2}, {"waiting for gradients", 4}, {"optimizer", 2}};
  EXPECT_EQ(found, expected);
}

TEST(OperationTimes, TakeAWaitOutOfTheLayerThatWaited) {
  StepSpans spans;
  spans.scopes = {{"forward", Lane::compute, 0, 0, 10},
                  {"layer 0 Linear(4, 4)", Lane::compute, 1, 1, 9},
                  {"backward", Lane::compute, 0, 10, 30}};
  spans.waits = {{1, 6}};
  std::map<std::string, double> found;
  for (const OperationTime& operation : operation_times({{1, spans}})) {
    found.emplace(operation.name, operation.ms);
  }
  const std::map<std::string, double> expected{
      {"forward", 2}, {"forward Linear", 3}, {"backward", 20}, {"waiting for gradients", 5}};
  EXPECT_EQ(found, expected);
}

// Updates in flight come last, whenever they were: StepClock adds them when the step is over.
TEST(OperationTimes, UpdatesInFlightAreOneOptimizerAndNeverWaited) {
  StepSpans spans;
  spans.scopes = {{"forward", Lane::compute, 0, 0, 10},
                  {"layer 0 Linear(4, 4)", Lane::compute, 1, 1, 9},
                  {"backward", Lane::compute, 0, 10, 30},
                  {"optimizer bucket_0", Lane::optimizer, 0, 0.5, 6},
                  {"optimizer 2.weight", Lane::optimizer, 0, 25, 27}};
  spans.waits = {{1, 6}, {26, 28}};
  std::map<std::string, double> found;
  std::map<std::string, double> calls;
  for (const OperationTime& operation : operation_times({{1, spans}})) {
    found.emplace(operation.name, operation.ms);
    calls.emplace(operation.name, operation.calls);
  }
  const std::map<std::string, double> expected{{"forward", 2},
                                               {"forward Linear", 3},
                                               {"backward", 18},
                                               {"optimizer", 7.5},
                                               {"waiting for gradients", 7}};
  EXPECT_EQ(found, expected);
  EXPECT_EQ(calls["optimizer"], 2);
}

TEST(GatherTraces, PutsAllRanksOnTheClockOfRank0) {
  test::thread_world(3, [](dist::Communicator& comm) {
    // Rank r's clock is r seconds ahead; all steps really begin 5 ms after the same moment.
    const auto epoch =
        std::chrono::steady_clock::time_point(std::chrono::seconds(100 + comm.rank()));
    const dist::ClockOffset offset{epoch, 1e3 * comm.rank(), 0.25};
    StepSpans spans;
    spans.start = 5.0;
    spans.labels = {"bucket_0"};
    const std::vector<RankTrace> ranks =
        gather_traces(comm, "host", {{3, spans}}, {epoch, 0.5 + comm.rank()}, offset, offset);
    if (comm.rank() != 0) {
      EXPECT_TRUE(ranks.empty());
      return;
    }
    ASSERT_EQ(ranks.size(), 3U);
    for (int rank = 0; rank < 3; ++rank) {
      const RankTrace& trace = ranks[static_cast<std::size_t>(rank)];
      EXPECT_EQ(trace.rank, rank);
      EXPECT_EQ(trace.steps.at(0).step, 3);
      EXPECT_THAT(trace.steps[0].spans.start, DoubleNear(0.0, 1e-6));
      EXPECT_EQ(trace.steps[0].spans.labels.at(0), "bucket_0");
      const double of_epochs = rank == 0 ? 0.0 : 0.5 + (0.5 + rank);  // rank 0's and its own
      EXPECT_DOUBLE_EQ(trace.clock_error_ms, 0.25 + of_epochs);
    }
  });
}

TEST(GatherTraces, CorrectsTheDriftOfEachStep) {
  test::thread_world(2, [](dist::Communicator& comm) {
    // Rank 1's clock gains 10 ms in the second between the two measurements.
    using std::chrono::milliseconds;
    const std::chrono::steady_clock::time_point epoch{std::chrono::seconds(100)};
    const double gain = comm.rank() == 1 ? 10.0 : 0.0;
    const dist::ClockOffset before{epoch, 0.0, 0.1};
    const dist::ClockOffset after{epoch + milliseconds(1000), gain, 0.1};
    StepSpans first;
    StepSpans last;
    last.start = 1000.0 + gain;  // the same moment on both ranks, each by its own clock
    const std::vector<RankTrace> ranks =
        gather_traces(comm, "host", {{1, first}, {2, last}}, {epoch, 0.0}, before, after);
    if (comm.rank() == 0) {
      EXPECT_THAT(ranks.at(1).steps.at(0).spans.start, DoubleNear(0.0, 0.01));
      EXPECT_THAT(ranks.at(1).steps.at(1).spans.start, DoubleNear(1000.0, 0.11));
    }
  });
}

TEST(TraceSchedule, SkipsRunsOneStepWarmAndKeepsTheNext) {
  const TraceSchedule schedule{.skip = 5, .steps = 3};
  std::string seen;
  for (std::int64_t step = 0; step < 10; ++step) {
    seen += schedule.keeps(step) ? 'k' : schedule.records(step) ? 'w' : '.';
  }
  EXPECT_EQ(seen, "....wkkk..");
}

TEST(SpanLog, NestsAndCostsNothingWhenNobodyLooks) {
  int details = 0;
  const auto detail = [&details] { return std::to_string(++details); };
  { const TraceScope unseen("unseen ", detail); }
  EXPECT_EQ(details, 0) << "the detail was put together for nobody";
  SpanLog log(compute_stream(kCpu));
  Context::current().set_span_log(&log);
  {
    const TraceScope outer("outer");
    const TraceScope inner("inner ", detail, Lane::data);
  }
  Context::current().set_span_log(nullptr);
  const std::vector<SpanLog::Span> spans = log.take();
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].name, "outer");
  EXPECT_EQ(spans[1].name, "inner 1");
  EXPECT_EQ(spans[1].depth, 1);
  EXPECT_EQ(spans[1].lane, Lane::data);
  EXPECT_GE(elapsed_ms(spans[0].begin, spans[1].begin), 0.0);
  EXPECT_GE(elapsed_ms(spans[1].end, spans[0].end), 0.0);
}

}  // namespace
}  // namespace brigade::apps
