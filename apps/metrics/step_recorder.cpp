#include "apps/metrics/step_recorder.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace brigade::apps {

namespace {

constexpr int kClockRounds = 50;
constexpr const char* kWaiting = "waiting for gradients";
constexpr const char* kInFlight = "optimizer ";  // begins the name of an update in flight

/// The kind of a scope: "layer 3 Linear(512, 10)" -> "Linear", "linear 4.weight" -> "linear".
std::string kind_of(const std::string& name) {
  constexpr std::string_view kLayer = "layer ";
  std::string rest = name;
  if (rest.rfind(kLayer, 0) == 0) {
    rest = rest.substr(std::min(rest.find(' ', kLayer.size()), rest.size() - 1) + 1);
  }
  return rest.substr(0, rest.find_first_of(" ("));
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
  std::map<std::string, OperationTime> totals;
  const auto add = [&](const std::string& name, double ms, double calls) {
    OperationTime& total = totals.try_emplace(name, OperationTime{.name = name}).first->second;
    total.ms += ms;
    total.calls += calls;
  };
  for (const StepTrace& step : steps) {
    std::vector<ScopeTimes> timed;  // on the compute stream, which also waits
    for (const ScopeTimes& scope : step.spans.scopes) {
      if (scope.name.starts_with(kInFlight)) {  // beside the rest
        add("optimizer", scope.end - scope.begin, scope.name.ends_with(kGoesOn) ? 0.0 : 1.0);
      } else if (scope.lane == Lane::compute || scope.lane == Lane::optimizer) {
        timed.push_back(scope);
      }
    }
    for (const Interval& wait : step.spans.waits) {
      timed.push_back({.name = kWaiting, .begin = wait.begin, .end = wait.end});
    }
    std::ranges::stable_sort(timed, {}, &ScopeTimes::begin);
    std::vector<ScopeTimes> open;  // those around the current one, by their names in the table
    for (const ScopeTimes& scope : timed) {
      while (!open.empty() && open.back().end < scope.end) {
        open.pop_back();
      }
      std::string name = scope.name;
      if (name != kWaiting && !open.empty()) {
        name = open.front().name + " " + kind_of(name);
      }
      add(name, scope.end - scope.begin, 1.0);
      if (!open.empty()) {  // only what is not inside an inner scope is its own
        add(open.back().name, scope.begin - scope.end, 0.0);
      }
      open.push_back({.name = name, .begin = scope.begin, .end = scope.end});
    }
  }
  std::vector<OperationTime> times;
  times.reserve(totals.size());
  const auto count = static_cast<double>(steps.size());
  for (const auto& [name, total] : totals) {
    times.push_back({name, total.ms / count, total.calls / count});
  }
  std::ranges::sort(times, std::greater(), &OperationTime::ms);
  return times;
}

}  // namespace brigade::apps
