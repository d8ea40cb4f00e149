#include "apps/report/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/metrics/figure.h"
#include "apps/metrics/timing_summary.h"
#include "apps/report/html_page.h"
#include "apps/report/loss_curve.h"
#include "apps/report/timeline_svg.h"

namespace brigade::apps {

namespace {

/// What a panel says of one rank's recorded steps. Times are medians over these.
struct RankFigures {
  StepTimes median;
  double hidden_fraction = 0.0;
  double waiting = 0.0;  ///< sums over the collectives of a step
  double transfer = 0.0;
  std::size_t median_step = 0;  ///< position of the step whose time is nearest to the median
};

RankFigures figures_of(const RunTrace& trace, std::size_t rank) {
  RankFigures figures;
  std::vector<StepTimes> times;
  std::vector<double> waiting;
  std::vector<double> transfer;
  for (std::size_t step = 0; step < trace.ranks[rank].steps.size(); ++step) {
    const StepSpans& spans = trace.ranks[rank].steps[step].spans;
    times.push_back(times_of(spans));
    CollectiveSplit sum;
    for (std::size_t i = 0; i < spans.collectives.size(); ++i) {
      const CollectiveSplit split = split_collective(trace, rank, step, i);
      sum.waiting += split.waiting;
      sum.transfer += split.transfer;
    }
    waiting.push_back(sum.waiting);
    transfer.push_back(sum.transfer);
  }
  figures.median = median_times(times);
  figures.hidden_fraction = hidden_fraction(times);
  figures.waiting = quantile(std::move(waiting), 0.5);
  figures.transfer = quantile(std::move(transfer), 0.5);
  const auto distance = [&figures](const StepTimes& each) {
    return std::abs(each.step - figures.median.step);
  };
  figures.median_step =
      static_cast<std::size_t>(std::ranges::min_element(times, {}, distance) - times.begin());
  return figures;
}

/// A trace with the figures of its ranks; `slowest` is the rank with the longest median step.
struct Panel {
  explicit Panel(const RunTrace& of) : trace(of), window(time_window(of)) {
    for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
      ranks.push_back(figures_of(trace, rank));
      slowest = ranks[rank].median.step > ranks[slowest].median.step ? rank : slowest;
    }
  }
  bool empty() const { return window.end <= window.begin; }
  StepRange median_step() const { return {ranks[slowest].median_step, 1}; }

  const RunTrace& trace;
  Interval window;
  std::vector<RankFigures> ranks;
  std::size_t slowest = 0;
};

std::string hidden_text(const RankFigures& rank) {
  return rank.median.comm > 0.0 ? fmt::format("{:.1f} %", kPercent * rank.hidden_fraction) : "-";
}

/// An error bound is never rounded down to nothing.
std::string clock_text(double error_ms) {
  constexpr double kShortestShown = 0.001;
  return ms_text(error_ms > 0.0 ? std::max(error_ms, kShortestShown) : 0.0);
}

std::string communication_html(const RankFigures& rank) {
  const StepTimes& t = rank.median;
  return t.comm > 0.0 ? html_part("communication", {{"comm", ms_text(t.comm)},
                                                    {"exposed", ms_text(t.exposed)},
                                                    {"hidden", hidden_text(rank)}})
                      : ", no communication";
}

std::string table(const Panel& panel) {
  TextGrid grid{{"rank", "host", "step", "forward", "backward", "optimizer", "idle", "comm",
                 "hidden", "exposed", "hidden %", "waiting for last rank", "transfer",
                 "clock error"}};
  for (std::size_t i = 0; i < panel.ranks.size(); ++i) {
    const RankFigures& figures = panel.ranks[i];
    const StepTimes& t = figures.median;
    const RankTrace& rank = panel.trace.ranks[i];
    grid.push_back({std::to_string(rank.rank), rank.host, ms_text(t.step), ms_text(t.forward),
                    ms_text(t.backward), ms_text(t.optimizer), ms_text(t.wait), ms_text(t.comm),
                    ms_text(t.hidden), ms_text(t.exposed), hidden_text(figures),
                    ms_text(figures.waiting), ms_text(figures.transfer),
                    clock_text(rank.clock_error_ms)});
  }
  return html_table(grid);
}

/// `all_steps`, `one_step`: ms per full width of the two pictures.
std::string panel_html(const Panel& panel, double all_steps, double one_step) {
  const RunTrace& trace = panel.trace;
  std::vector<std::string> where{trace.device, trace.comm, trace.caption};
  std::erase(where, "");
  std::map<std::string_view, std::string> values{
      {"title", escaped(trace.title)},
      {"where", escaped(fmt::format("{}", fmt::join(where, " · ")))}};
  if (panel.empty()) {
    return html_part("empty_panel", values);
  }
  const RankTrace& rank = trace.ranks[panel.slowest];
  const RankFigures& figures = panel.ranks[panel.slowest];
  const std::size_t steps = rank.steps.size();
  values.insert({
      {"steps", plural(static_cast<std::int64_t>(steps), "recorded step")},
      {"rank", fmt::format("{}{}", rank.rank, panel.ranks.size() > 1 ? " (the slowest)" : "")},
      {"step", ms_text(figures.median.step)},
      {"communication", communication_html(figures)},
      {"clock", clock_text(clock_error_ms(trace))},
      {"steps_svg", timeline_svg(trace, all_steps)},
      {"enlarged", ""},
      {"table", table(panel)},
  });
  if (steps > 1) {
    values["enlarged"] =
        html_part("enlarged", {{"step", std::to_string(rank.steps[figures.median_step].step)},
                               {"svg", timeline_svg(trace, one_step, panel.median_step())}});
  }
  return html_part("panel", values);
}

}  // namespace

std::string timeline_panels(const std::vector<RunTrace>& traces) {
  const std::vector<Panel> panels(traces.begin(), traces.end());
  double all_steps = 0.0;
  double one_step = 0.0;
  for (const Panel& panel : panels) {
    if (!panel.empty()) {
      const Interval step = time_window(panel.trace, panel.median_step());
      all_steps = std::max(all_steps, panel.window.end - panel.window.begin);
      one_step = std::max(one_step, step.end - step.begin);
    }
  }
  std::string html;
  for (const Panel& panel : panels) {
    html += panel_html(panel, all_steps, one_step) + "\n";
  }
  return html;
}

std::string timeline_html(const std::string& title, const std::vector<RunTrace>& traces,
                          const std::string& metrics) {
  return html_page(
      title, html_part("page", {{"summary", html_part("timeline", {{"loss", loss_curve(metrics)}})},
                                {"panels", timeline_panels(traces)}}));
}

}  // namespace brigade::apps
