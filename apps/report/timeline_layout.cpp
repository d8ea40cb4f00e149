#include "apps/report/timeline_layout.h"

#include <algorithm>

namespace brigade::apps {

namespace {

constexpr double kCompute = 22.0;
constexpr double kLayers = 12.0;
constexpr double kLaneGap = 6.0;
constexpr double kRankGap = 18.0;
constexpr double kCommRow = 16.0;
constexpr double kClockGrain = 1e-3;     // a GPU's events are exact to about half a microsecond
constexpr std::size_t kMaxCommRows = 8;  // one more collective in flight is drawn over another

/// When the step and its collectives are over, on the common clock.
double end_of(const StepSpans& spans) {
  double end = spans.optimizer.end;
  for (const CollectiveTimes& collective : spans.collectives) {
    end = std::max(end, collective.end);
  }
  return spans.start + end;
}

}  // namespace

std::vector<std::size_t> stack_rows(std::span<const StepTrace> steps, std::size_t max_rows,
                                    double clock_grain) {
  std::vector<std::size_t> rows;
  std::vector<double> busy_until;
  for (const StepTrace& step : steps) {
    for (const CollectiveTimes& collective : step.spans.collectives) {
      const double begin = step.spans.start + collective.begin;
      auto row = std::find_if(busy_until.begin(), busy_until.end(),
                              [&](double until) { return until <= begin + clock_grain; });
      if (row == busy_until.end() && busy_until.size() == max_rows) {
        row = std::min_element(busy_until.begin(), busy_until.end());
      }
      rows.push_back(static_cast<std::size_t>(row - busy_until.begin()));
      busy_until.resize(std::max(busy_until.size(), rows.back() + 1));
      busy_until[rows.back()] = step.spans.start + collective.end;
    }
  }
  return rows;
}

std::span<const StepTrace> steps_in(const RankTrace& rank, StepRange range) {
  const std::span<const StepTrace> steps(rank.steps);
  const std::size_t first = std::min(range.first, steps.size());
  return steps.subspan(first, std::min(range.count, steps.size() - first));
}

Interval time_window(const RunTrace& trace, StepRange range) {
  Interval window{std::numeric_limits<double>::max(), std::numeric_limits<double>::lowest()};
  for (const RankTrace& rank : trace.ranks) {
    for (const StepTrace& step : steps_in(rank, range)) {
      window.begin = std::min(window.begin, step.spans.start);
      window.end = std::max(window.end, end_of(step.spans));
    }
  }
  return window.begin < window.end ? window : Interval{};
}

Row RankLayout::row_of(std::size_t collective) const {
  return {comm.top + static_cast<double>(rows[collective]) * kCommRow, kCommRow};
}

std::vector<RankLayout> lay_out_ranks(const RunTrace& trace, StepRange range, double top) {
  std::vector<RankLayout> ranks;
  for (const RankTrace& rank : trace.ranks) {
    RankLayout lanes;
    lanes.compute = {top, kCompute};
    lanes.layers = {top + kCompute, kLayers};
    lanes.rows = stack_rows(steps_in(rank, range), kMaxCommRows, kClockGrain);
    const auto last = std::max_element(lanes.rows.begin(), lanes.rows.end());
    const std::size_t count = last == lanes.rows.end() ? 1 : *last + 1;
    lanes.comm = {lanes.layers.top + kLayers + kLaneGap, static_cast<double>(count) * kCommRow};
    top = lanes.bottom() + kRankGap;
    ranks.push_back(std::move(lanes));
  }
  return ranks;
}

}  // namespace brigade::apps
