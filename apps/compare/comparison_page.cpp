#include "apps/compare/comparison_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "apps/report/html_page.h"
#include "apps/report/summary.h"
#include "apps/report/timeline.h"
#include "apps/report/timeline_canvas.h"

namespace brigade::apps {

namespace {

/// The stretches of a bar: which figure, and its class in page.html.
constexpr std::pair<const char*, const char*> kStepParts[]{{"forward_ms", "forward"},
                                                           {"backward_ms", "backward"},
                                                           {"wait_ms", "idle"},
                                                           {"optimizer_ms", "optimizer"}};

double value_of(const FigureRow& row, const std::string& key) {
  const Json& value = std::ranges::find(row.figures, key, &Figure::key)->value;
  return value.is_number() ? value.get<double>() : 0.0;
}

/// The step of each row of the table as a bar, on one scale.
std::string step_chart(const std::vector<FigureRow>& rows) {
  constexpr double kRow = 30.0;
  constexpr double kRoomForNumbers = 1.15;
  double longest = 0.0;
  for (const FigureRow& row : rows) {
    longest = std::max(longest, value_of(row, "step_ms"));
  }
  TimelineCanvas canvas(0.0, kRoomForNumbers * longest);
  double top = 0.0;
  for (const FigureRow& row : rows) {
    const Row bar{top + 4.0, 21.0};
    const double baseline = top + 18.0;
    canvas.text("end", TimelineCanvas::kPlotLeft - 8.0, baseline, row.name);
    double begin = 0.0;
    for (const auto& [key, style] : kStepParts) {
      const Interval stretch{begin, begin + value_of(row, key)};
      const std::string text = fmt::format("{} {:.1f} ms", style, stretch.end - begin);
      canvas.block(style, stretch, bar, text);
      canvas.block_label(fmt::format("on-{}", style), stretch, bar, {text});
      begin = stretch.end;
    }
    canvas.block("outline", {0.0, begin}, bar);
    canvas.text("strong", canvas.x(begin) + 8.0, baseline,
                fmt::format("{:.2f} ms", value_of(row, "step_ms")));
    top += kRow;
  }
  return canvas.finish(top, "the steps of all modes");
}

}  // namespace

std::string comparison_html(const RunInfo& info, const Comparison& result) {
  const std::string label = emulated_text(info.options);
  const std::vector<FigureRow> rows = comparison_rows(info, result);
  std::string table = html_table(grid_of("mode" + label, rows));
  if (const TextGrid buckets = bucket_grid(result); !buckets.empty()) {
    table += html_table(buckets);
  }
  std::vector<RunTrace> traces;
  std::ranges::transform(result.modes, std::back_inserter(traces), &ModeResult::trace);
  traces.push_back(result.ideal.trace);
  const std::string summary = html_part(
      "comparison", {{"start", html_lines("<p class=\"muted\">", comparison_start(info), "</p>")},
                     {"table", table},
                     {"notes", html_lines("<li>", comparison_notes(info, result), "</li>")},
                     {"chart", step_chart(rows)},
                     {"emulated", label}});
  return html_page(
      fmt::format("compare_modes: the synchronisation modes on {} ranks", info.ranks.size),
      html_part("page", {{"summary", summary}, {"panels", timeline_panels(traces)}}));
}

}  // namespace brigade::apps
