#include "apps/run_trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/gather.h"

namespace brigade::apps {

// How a rank's trace travels to rank 0. to_json and from_json are names nlohmann-json looks for.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Interval, begin, end)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CollectiveTimes, ready, begin, end, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ScopeTimes, name, lane, depth, begin, end)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MemorySample, at, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepSpans, start, forwards, backwards, optimizer, updates, waits,
                                   collectives, labels, scopes, operations, memory)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepTrace, step, spans)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankTrace, rank, host, clock_error_ms, steps)

double clock_error_ms(const RunTrace& trace) {
  double largest = 0.0;
  for (const RankTrace& rank : trace.ranks) {
    largest = std::max(largest, rank.clock_error_ms);
  }
  return largest;
}

CollectiveSplit split_collective(const RunTrace& trace, std::size_t rank, std::size_t step,
                                 std::size_t index) {
  const StepSpans& mine = trace.ranks[rank].steps[step].spans;
  const CollectiveTimes& collective = mine.collectives[index];
  double last_begin = mine.start + collective.begin;
  for (const RankTrace& other : trace.ranks) {
    const StepSpans& theirs = other.steps[step].spans;
    if (index < theirs.collectives.size()) {
      last_begin = std::max(last_begin, theirs.start + theirs.collectives[index].begin);
    }
  }
  const double waiting = std::clamp(last_begin - (mine.start + collective.begin), 0.0,
                                    collective.end - collective.begin);
  return {waiting, collective.end - collective.begin - waiting};
}

std::vector<RankTrace> gather_traces(dist::Communicator& comm, const std::string& host,
                                     std::vector<StepTrace> steps, const TraceEpoch& epoch,
                                     const dist::ClockOffset& before,
                                     const dist::ClockOffset& after) {
  // Each step's start on rank 0's clock: the offset of two clocks that drift apart is not the same
  // at the first recorded step and at the last.
  const auto ms_of = [](std::chrono::steady_clock::time_point time) {
    return std::chrono::duration<double, std::milli>(time.time_since_epoch()).count();
  };
  const TraceEpoch zero = dist::all_gather_values(comm, epoch).front();  // rank 0's
  for (StepTrace& step : steps) {
    const auto start =
        epoch.when + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                         std::chrono::duration<double, std::milli>(step.spans.start));
    step.spans.start +=
        ms_of(epoch.when) - dist::interpolate_ms(before, after, start) - ms_of(zero.when);
  }

  const double epochs_error = comm.rank() == 0 ? 0.0 : epoch.error_ms + zero.error_ms;
  RankTrace trace{.rank = comm.rank(),
                  .host = host,
                  .clock_error_ms = std::max(before.error_ms, after.error_ms) + epochs_error,
                  .steps = std::move(steps)};
  const std::vector<std::string> texts = gather_texts(comm, nlohmann::json(trace).dump());
  std::vector<RankTrace> ranks;
  for (const std::string& text : texts) {
    if (comm.rank() == 0) {
      ranks.push_back(nlohmann::json::parse(text).get<RankTrace>());
    }
  }
  // Time 0 is the beginning of the first recorded step of rank 0.
  const double origin =
      ranks.empty() || ranks[0].steps.empty() ? 0.0 : ranks[0].steps[0].spans.start;
  for (RankTrace& rank : ranks) {
    for (StepTrace& step : rank.steps) {
      step.spans.start -= origin;
    }
  }
  return ranks;
}

}  // namespace brigade::apps
