#include "apps/report/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "apps/metrics/timing_summary.h"
#include "apps/report/html_page.h"
#include "apps/report/timeline_svg.h"

namespace brigade::apps {

namespace {

/// Medians over a rank's recorded steps.
struct RankFigures {
  StepTimes median;
  double hidden_fraction = 0.0;
  double waiting = 0.0;  // sums over the collectives of a step
  double transfer = 0.0;
  std::vector<double> steps;
};

RankFigures figures_of(const RunTrace& trace, std::size_t rank) {
  RankFigures figures;
  std::vector<StepTimes> times;
  std::vector<double> waiting;
  std::vector<double> transfer;
  for (std::size_t step = 0; step < trace.ranks[rank].steps.size(); ++step) {
    const StepSpans& spans = trace.ranks[rank].steps[step].spans;
    times.push_back(times_of(spans));
    figures.steps.push_back(times.back().step);
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
  figures.hidden_fraction = hidden_fraction(figures.median);
  figures.waiting = quantile(std::move(waiting), 0.5);
  figures.transfer = quantile(std::move(transfer), 0.5);
  return figures;
}

std::vector<RankFigures> figures_of(const RunTrace& trace) {
  std::vector<RankFigures> ranks;
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    ranks.push_back(figures_of(trace, rank));
  }
  return ranks;
}

std::size_t slowest_of(const std::vector<RankFigures>& ranks) {
  const auto slowest = std::max_element(
      ranks.begin(), ranks.end(),
      [](const RankFigures& a, const RankFigures& b) { return a.median.step < b.median.step; });
  return static_cast<std::size_t>(slowest - ranks.begin());
}

/// The step whose time on the slowest rank is nearest to that rank's median.
StepRange median_step(const RankFigures& slowest) {
  const auto distance = [&](double step) { return std::abs(step - slowest.median.step); };
  const auto best = std::min_element(slowest.steps.begin(), slowest.steps.end(),
                                     [&](double a, double b) { return distance(a) < distance(b); });
  return {static_cast<std::size_t>(best - slowest.steps.begin()), 1};
}

bool is_empty(const RunTrace& trace) {
  const Interval window = time_window(trace);
  return window.end <= window.begin;
}

std::string percent(const RankFigures& figures) {
  return figures.median.comm > 0.0 ? fmt::format("{:.1f} %", 100.0 * figures.hidden_fraction) : "–";
}

/// An error bound is never rounded down to nothing.
std::string clock_text(double error_ms) {
  constexpr double kShortestShown = 0.001;
  return ms_text(error_ms > 0.0 ? std::max(error_ms, kShortestShown) : 0.0);
}

std::string caption(const RunTrace& trace, const RankFigures& slowest, int rank) {
  std::string text = fmt::format(
      "<p class=\"figures\">Median of {} recorded step{}, rank {}{}: ", slowest.steps.size(),
      slowest.steps.size() == 1 ? "" : "s", rank, trace.ranks.size() > 1 ? " (the slowest)" : "");
  const StepTimes& t = slowest.median;
  text += fmt::format("<b>step {} ms</b>", ms_text(t.step));
  if (t.comm > 0.0) {
    text += fmt::format(", comm {} ms, <b>exposed {} ms</b>, <b>hidden {}</b>", ms_text(t.comm),
                        ms_text(t.exposed), percent(slowest));
  } else {
    text += ", no communication";
  }
  return text +
         fmt::format(". Clock error at most {} ms.</p>\n", clock_text(clock_error_ms(trace)));
}

std::string table(const RunTrace& trace, const std::vector<RankFigures>& figures) {
  std::string text =
      "<div class=\"scroll\"><table><tr><th class=\"name\">rank</th><th class=\"name\">host</th>"
      "<th>step</th><th>forward</th><th>backward</th><th>optimizer</th><th>idle</th><th>comm</th>"
      "<th>hidden</th><th>exposed</th><th>hidden&nbsp;%</th><th>waiting for<br>last rank</th>"
      "<th>transfer</th><th>clock<br>error</th></tr>\n";
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const StepTimes& t = figures[i].median;
    text += fmt::format("<tr><td class=\"name\">{}</td><td class=\"name\">{}</td>",
                        trace.ranks[i].rank, escaped(trace.ranks[i].host));
    for (const double ms :
         {t.step, t.forward, t.backward, t.optimizer, t.wait, t.comm, t.hidden, t.exposed}) {
      text += "<td>" + ms_text(ms) + "</td>";
    }
    text += "<td>" + percent(figures[i]) + "</td>";
    for (const double ms : {figures[i].waiting, figures[i].transfer}) {
      text += "<td>" + ms_text(ms) + "</td>";
    }
    text += "<td>" + clock_text(trace.ranks[i].clock_error_ms) + "</td>";
    text += "</tr>\n";
  }
  return text + "</table></div>\n";
}

/// What ran where, as far as it is known, and the caption.
std::string subtitle(const RunTrace& trace) {
  std::string text;
  for (const std::string& part : {trace.device, trace.comm, trace.caption}) {
    if (!part.empty()) {
      text += (text.empty() ? "" : " · ") + escaped(part);
    }
  }
  return text.empty() ? text : "<p class=\"muted\">" + text + "</p>\n";
}

std::string key_entry(const std::string& blocks, const std::string& meaning) {
  return "<li><svg class=\"timeline\" viewBox=\"0 0 30 14\" aria-hidden=\"true\">" + blocks +
         "</svg>" + meaning + "</li>\n";
}

std::string key_block(const std::string& style) {
  return "<rect class=\"" + style + R"(" x="1" y="1" width="28" height="12"/>)";
}

}  // namespace

TimelineScales common_scales(const std::vector<RunTrace>& panels) {
  TimelineScales scales;
  const auto longer = [](double scale, const Interval& window) {
    return std::max(scale, window.end - window.begin);
  };
  for (const RunTrace& trace : panels) {
    if (!is_empty(trace)) {
      const std::vector<RankFigures> ranks = figures_of(trace);
      const StepRange median = median_step(ranks[slowest_of(ranks)]);
      scales.all_steps = longer(scales.all_steps, time_window(trace));
      scales.one_step = longer(scales.one_step, time_window(trace, median));
    }
  }
  return scales;
}

std::string timeline_panel(const RunTrace& trace, const TimelineScales& scales) {
  std::string text = "<section>\n<h2>" + escaped(trace.title) + "</h2>\n" + subtitle(trace);
  if (is_empty(trace)) {
    return text +
           "<p><b>No step was recorded.</b> The run may have ended before recording began.</p>\n"
           "</section>\n";
  }
  const std::vector<RankFigures> figures = figures_of(trace);
  const std::size_t slowest = slowest_of(figures);
  text += caption(trace, figures[slowest], trace.ranks[slowest].rank);
  text += "<div class=\"scroll\">" + timeline_svg(trace, scales.all_steps) + "</div>\n";
  if (figures[slowest].steps.size() > 1) {
    const StepRange median = median_step(figures[slowest]);
    text += fmt::format("<details><summary>Step {}, enlarged</summary><div class=\"scroll\">",
                        trace.ranks[slowest].steps[median.first].step);
    text += timeline_svg(trace, scales.one_step, median) + "</div></details>\n";
  }
  return text + table(trace, figures) + "</section>\n";
}

std::string timeline_key() {
  const std::string edge = key_block("collective");
  return "<ul class=\"key\">\n" + key_entry(key_block("forward"), "forward") +
         key_entry(key_block("backward"), "backward") +
         key_entry(key_block("optimizer"), "optimizer") +
         key_entry(key_block("layer"), "layers inside") +
         key_entry(key_block("idle") + dots("idle", 1, 1, 28, 12),
                   "idle: waiting for a collective") +
         key_entry(key_block("between"), "between steps") +
         key_entry(key_block("transfer") + edge, "collective, hidden") +
         key_entry(key_block("transfer") + hatching(1, 1, 28, 12) + edge, "collective, exposed") +
         key_entry(key_block("waiting") + dots("waiting", 1, 1, 28, 12) + edge,
                   "waiting for the last rank") +
         key_entry(R"(<line class="ready" x1="15" y1="3" x2="15" y2="11"/>)", "gradients ready") +
         "</ul>\n";
}

std::string timeline_reading() {
  return R"(<section class="reading"><h2>How to read it</h2><dl>
<dt>step</dt><dd>From the begin of the first forward to the end of the optimizer; data is there and
all ranks have met before it begins (with --cross-step it begins where the last one ended). Figures
are medians over the recorded steps, in ms.</dd>
<dt>compute, idle</dt><dd>A rank is idle while it has nothing left to do but wait for a collective;
the rest of its step is compute. Forward, backward and optimizer are given without idle.</dd>
<dt>comm, hidden, exposed</dt><dd>comm is the length of the union of a rank's collectives in flight;
hidden = |compute ∩ comm|, the part beside computation; exposed = comm − hidden, hatched.
hidden % = hidden / comm.</dd>
<dt>waiting for the last rank, transfer</dt><dd>Data can move once the last rank has begun a
collective. What lies before is waiting, the rest transfer; summed over a step's collectives, so
together they exceed comm where several are in flight at once.</dd>
<dt>GB/s</dt><dd>Algorithm bandwidth: a collective's bytes / its whole duration.</dd>
<dt>clock error</dt><dd>A rank's times are those of rank 0's clock, give or take this much.</dd>
</dl></section>
)";
}

std::string timeline_html(const std::string& title, const std::vector<RunTrace>& panels) {
  const TimelineScales scales = common_scales(panels);
  std::string body = "<h1>" + escaped(title) + "</h1>\n";
  if (panels.empty()) {
    return html_page(title, body + "<p><b>No step was recorded.</b></p>\n");
  }
  body += "<p class=\"muted\">Times are in ms.";
  body += panels.size() > 1 ? " All time lines have the same scale." : "";
  body += " Rest the mouse on a block for its numbers.</p>\n";
  body += timeline_key();
  for (const RunTrace& trace : panels) {
    body += timeline_panel(trace, scales);
  }
  return html_page(title, body + timeline_reading());
}

}  // namespace brigade::apps
