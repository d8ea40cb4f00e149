#include "apps/compare/comparison_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "apps/report/html_page.h"
#include "apps/report/summary.h"
#include "apps/report/timeline.h"
#include "apps/report/timeline_canvas.h"

namespace brigade::apps {

namespace {

using Json = nlohmann::ordered_json;

/// A stretch of a bar: which figure, in which class of page.html.
struct BarPart {
  const char* key;
  const char* style;
  const char* format;
};

/// Horizontal bars below each other, on one scale: one per row of the table.
struct Chart {
  const char* title;
  const char* explanation;
  std::vector<BarPart> parts;
  const char* number;         ///< behind the bar: the figure with this key ...
  const char* number_format;  ///< ... in this format
};

const std::array<Chart, 3> kCharts{{
    {"Step",
     "Medians of forward, backward, idle (waiting for gradients) and optimizer. The number is the "
     "median of the whole step",
     {{"forward_ms", "forward", "forward {:.1f} ms"},
      {"backward_ms", "backward", "backward {:.1f} ms"},
      {"wait_ms", "idle", "idle {:.1f} ms"},
      {"optimizer_ms", "optimizer", "optimizer {:.1f} ms"}},
     "step_ms",
     "{:.2f} ms"},
    {"Communication",
     "Plain: hidden behind computation. Hatched: exposed. The number is comm of the table",
     {{"hidden_ms", "transfer", "hidden {:.1f} ms"},
      {"exposed_ms", "exposed", "exposed {:.1f} ms"}},
     "comm_ms",
     "{:.2f} ms"},
    {"Throughput",
     "All ranks together in each mode, and (none) without communication. The number is the "
     "multiple of one rank alone",
     {{"samples_per_second", "forward", "{:.0f} samples/s"}},
     "times_one_rank",
     "{:.2f} times"},
}};

double value_of(const FigureRow& row, const std::string& key) {
  const Json value = json_of(row.figures).value(key, Json(nullptr));
  return value.is_number() ? value.get<double>() : 0.0;
}

double length_of(const FigureRow& row, const Chart& chart) {
  return std::accumulate(
      chart.parts.begin(), chart.parts.end(), 0.0,
      [&row](double sum, const BarPart& part) { return sum + value_of(row, part.key); });
}

std::string chart_html(const Chart& chart, const std::vector<FigureRow>& rows, const char* label) {
  constexpr double kRow = 30.0;
  constexpr double kRoomForNumbers = 1.15;
  double longest = 0.0;
  for (const FigureRow& row : rows) {
    longest = std::max(longest, length_of(row, chart));
  }
  TimelineCanvas canvas(0.0, kRoomForNumbers * longest);
  double top = 0.0;
  for (const FigureRow& row : rows) {
    const Row bar{top + 4.0, 21.0};
    const double baseline = top + 18.0;
    canvas.text("end", TimelineCanvas::kPlotLeft - 8.0, baseline, row.name);
    double begin = 0.0;
    for (const BarPart& part : chart.parts) {
      const double value = value_of(row, part.key);
      const std::string text = fmt::format(fmt::runtime(part.format), value);
      const Interval stretch{begin, begin + value};
      if (part.style == std::string_view("exposed")) {
        canvas.block("transfer", stretch, bar);  // below the hatching
      }
      canvas.block(part.style, stretch, bar, text);
      canvas.block_label(fmt::format("on-{}", part.style), stretch, bar, {text});
      begin = stretch.end;
    }
    canvas.block("outline", {0.0, begin}, bar);
    canvas.text("strong", canvas.x(begin) + 8.0, baseline,
                fmt::format(fmt::runtime(chart.number_format), value_of(row, chart.number)));
    top += kRow;
  }
  return fmt::format(
      "<section><h2>{}</h2>\n<div class=\"scroll\">{}</div>\n<p class=\"muted\">{}{}.</p>"
      "</section>\n",
      chart.title, canvas.finish(top, chart.title), chart.explanation, label);
}

}  // namespace

std::string comparison_html(const RunInfo& info, const Comparison& result) {
  std::string summary;
  for (const std::string& line : comparison_start(info)) {
    summary += "<p class=\"muted\">" + escaped(line) + "</p>\n";
  }
  const char* label = emulated_text(info.options);
  const std::vector<FigureRow> rows = comparison_rows(info, result);
  summary += html_table(grid_of(message_of("mode", label), rows)) + "<ul>\n";
  for (const std::string& note : comparison_notes(info, result)) {
    summary += "<li>" + escaped(note) + "</li>\n";
  }
  summary += "</ul>\n";
  for (const Chart& chart : kCharts) {
    summary += chart_html(chart, rows, label);
  }
  summary +=
      "<h2>Time lines</h2>\n<p class=\"muted\">The last steps of each mode, all on one scale. "
      "Figures in bold are of the steps in the picture alone; those of the table are of all timed "
      "steps.</p>\n";
  std::vector<RunTrace> panels;
  for (const ModeResult& mode : result.modes) {
    panels.push_back(mode.trace);
  }
  panels.push_back(result.ideal.trace);
  return html_page(
      fmt::format("compare_modes: the synchronisation modes on {} ranks", info.ranks.size), summary,
      timeline_panels(panels));
}

}  // namespace brigade::apps
