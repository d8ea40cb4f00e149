#include "apps/metrics/beside_comm.h"

#include <map>
#include <string>
#include <utility>

#include "apps/metrics/timing_summary.h"

namespace brigade::apps {

namespace {

/// Name and place: how many of that name came before it in its step.
using Place = std::pair<std::string, int>;

std::vector<std::pair<Place, Interval>> operations_of(const StepSpans& spans) {
  std::vector<std::pair<Place, Interval>> operations;
  std::map<std::string, int> seen;
  for (const ScopeTimes& one : innermost(spans.scopes, Lane::compute)) {
    operations.push_back({{one.name, seen[one.name]++}, {one.begin, one.end}});
  }
  return operations;
}

}  // namespace

BesideComm beside_comm(const std::vector<StepTrace>& steps, const std::vector<StepTrace>& ideal) {
  std::map<Place, std::vector<double>> undisturbed;
  for (const StepTrace& step : ideal) {
    for (const auto& [place, time] : operations_of(step.spans)) {
      undisturbed[place].push_back(time.end - time.begin);
    }
  }
  BesideComm result;
  for (const StepTrace& step : steps) {
    const IntervalSet comm = communication_of(step.spans);
    for (const auto& [place, time] : operations_of(step.spans)) {
      const auto same = undisturbed.find(place);
      if (same != undisturbed.end() && !intersect({time}, comm).empty()) {
        ++result.operations;
        result.with_ms += time.end - time.begin;
        result.without_ms += quantile(same->second, 0.5);
      }
    }
  }
  return result;
}

}  // namespace brigade::apps
