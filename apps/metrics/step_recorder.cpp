#include "apps/metrics/step_recorder.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace brigade::apps {

namespace {

constexpr int kClockRounds = 50;

/// The kind of a scope: "layer 3 Linear(512, 10)" -> "Linear", "linear 4.weight" -> "linear".
std::string kind_of(const std::string& name) {
  constexpr std::string_view kLayer = "layer ";
  std::string rest = name;
  if (rest.rfind(kLayer, 0) == 0) {
    rest = rest.substr(std::min(rest.find(' ', kLayer.size()), rest.size() - 1) + 1);
  }
  return rest.substr(0, rest.find_first_of(" ("));
}

/// "backward_WITH_OVERLAP" -> "backward", "optimizer bucket_2" -> "optimizer"
std::string phase_of(const std::string& name) {
  return name.substr(0, name.find_first_of("_ "));
}

}  // namespace

void StepRecorder::before_step(std::int64_t step) {
  if (!schedule_.records(step)) {
    return;
  }
  if (!before_) {
    before_ = dist::measure_clock_offset(comm_, kClockRounds);
    clock_.restart();
    clock_.pause();
  }
  clock_.set_recording(true);
}

void StepRecorder::after_step(std::int64_t step, StepSpans spans) {
  clock_.set_recording(false);  // between steps there may be a test, which is no part of any
  if (!schedule_.keeps(step)) {
    return;
  }
  steps_.push_back({step + 1, std::move(spans)});
  if (!schedule_.records(step + 1)) {
    after_ = dist::measure_clock_offset(comm_, kClockRounds);
    clock_.pause();
  }
}

std::vector<RankTrace> StepRecorder::gather(const std::string& host) const {
  return gather_traces(comm_, host, steps_, {clock_.epoch(), clock_.epoch_error_ms()},
                       before_.value_or(after_), after_);
}

std::vector<OperationTime> operation_times(const std::vector<StepTrace>& steps) {
  std::map<std::string, double> totals;
  std::map<std::string, double> calls;
  for (const StepTrace& step : steps) {
    std::vector<std::string> open;  // names of the scopes around the current one
    std::vector<std::pair<Interval, std::string>> computing;
    for (const ScopeTimes& scope : step.spans.scopes) {
      open.resize(std::min(open.size(), static_cast<std::size_t>(scope.depth)));
      if (scope.lane != Lane::compute && scope.lane != Lane::optimizer) {
        continue;
      }
      const std::string name =
          open.empty() ? phase_of(scope.name) : phase_of(open.front()) + " " + kind_of(scope.name);
      const double length = scope.end - scope.begin;
      totals[name] += length;
      calls[name] += scope.name.ends_with(kGoesOn) ? 0.0 : 1.0;
      if (!open.empty()) {
        totals[open.back()] -= length;  // only what is not inside an inner scope is its own
      }
      open.push_back(name);
      // It is the compute stream that waits; updates in flight go on beside it.
      if (scope.lane == Lane::compute) {
        computing.emplace_back(Interval{scope.begin, scope.end}, name);
      }
    }
    for (const Interval& wait : step.spans.waits) {
      // Scopes come in the order in which they were opened, so the last one around it is innermost:
      // backward's own time, or with --cross-step a layer of the next forward.
      const auto around = std::find_if(computing.rbegin(), computing.rend(), [&](const auto& one) {
        return one.first.begin <= wait.begin && wait.begin < one.first.end;
      });
      totals[around == computing.rend() ? "backward" : around->second] -= wait.end - wait.begin;
      totals["waiting for gradients"] += wait.end - wait.begin;
      calls["waiting for gradients"] += 1.0;
    }
  }
  std::vector<OperationTime> times;
  const auto count = static_cast<double>(steps.size());
  std::transform(totals.begin(), totals.end(), std::back_inserter(times),
                 [&](const auto& total) -> OperationTime {
                   return {total.first, total.second / count, calls[total.first] / count};
                 });
  std::sort(times.begin(), times.end(),
            [](const OperationTime& a, const OperationTime& b) { return a.ms > b.ms; });
  return times;
}

}  // namespace brigade::apps
