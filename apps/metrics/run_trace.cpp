#include "apps/metrics/run_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "dist/comm/gather.h"

namespace brigade::apps {

// How a rank's trace travels to rank 0. to_json and from_json are names nlohmann-json looks for.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Interval, begin, end)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CollectiveTimes, ready, begin, end, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ScopeTimes, name, lane, depth, begin, end)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepSpans, start, forwards, backwards, optimizer, updates, waits,
                                   collectives, labels, scopes, operations)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepTrace, step, spans)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankTrace, rank, host, clock_error_ms, steps)

double clock_error_ms(const RunTrace& trace) {
  double largest = 0.0;
  for (const RankTrace& rank : trace.ranks) {
    largest = std::max(largest, rank.clock_error_ms);
  }
  return largest;
}

std::string clocks_text(const RunTrace& trace) {
  return fmt::format("clocks are aligned to {:.0f} us", std::ceil(1e3 * clock_error_ms(trace)));
}

namespace {

/// When `rank` began the collective that this rank calls `label` and began at `begin`, both in ms
/// of the run: the nearest of that name in its steps around `step`.
double begin_on(const RankTrace& rank, std::size_t step, const std::string& label, double begin) {
  std::optional<double> nearest;
  for (std::size_t i = step - std::min<std::size_t>(step, 1);
       i < std::min(step + 2, rank.steps.size()); ++i) {
    const StepSpans& spans = rank.steps[i].spans;
    for (std::size_t c = 0; c < spans.collectives.size(); ++c) {
      const double there = spans.start + spans.collectives[c].begin;
      if (spans.labels.at(c) == label &&
          (!nearest || std::abs(there - begin) < std::abs(*nearest - begin))) {
        nearest = there;
      }
    }
  }
  return nearest.value_or(begin);
}

}  // namespace

const std::string& contents_of(const RunTrace& trace, const std::string& label) {
  // A chunk "bucket_2[1/4]" and what goes on after the step have the bucket's parameters.
  const std::size_t end = std::min(label.find('['), label.rfind(kGoesOn));
  const auto found = trace.contents.find(label.substr(0, end));
  return found == trace.contents.end() ? label : found->second;
}

std::string shortened(const std::string& names) {
  constexpr std::int64_t kAll = 4;
  const std::int64_t count = std::ranges::count(names, ',') + 1;
  if (count <= kAll) {
    return names;
  }
  return fmt::format("{} ... {} ({} parameters)", names.substr(0, names.find(',')),
                     names.substr(names.rfind(' ') + 1), count);
}

std::string short_contents_of(const RunTrace& trace, const std::string& label) {
  return shortened(contents_of(trace, label));
}

CollectiveSplit split_collective(const RunTrace& trace, std::size_t rank, std::size_t step,
                                 std::size_t index) {
  const StepSpans& mine = trace.ranks[rank].steps[step].spans;
  const CollectiveTimes& collective = mine.collectives[index];
  const double begin = mine.start + collective.begin;
  const std::string& label = mine.labels.at(index);
  double last_begin = begin;
  for (const RankTrace& other : trace.ranks) {
    const StepSpans& theirs = other.steps[step].spans;
    const bool in_step = index < theirs.collectives.size() && theirs.labels.at(index) == label;
    if (!label.ends_with(kGoesOn)) {
      last_begin = std::max(last_begin, in_step ? theirs.start + theirs.collectives[index].begin
                                                : begin_on(other, step, label, begin));
    }
  }
  const double waiting = std::clamp(last_begin - begin, 0.0, collective.end - collective.begin);
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
  const std::vector<std::string> texts =
      dist::all_gather_sequences(comm, nlohmann::json(trace).dump());
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
