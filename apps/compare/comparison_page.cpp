#include "apps/compare/comparison_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/report/html_page.h"
#include "apps/report/summary.h"
#include "apps/report/timeline.h"
#include "apps/report/timeline_canvas.h"

namespace brigade::apps {

namespace {

/// A stretch of a bar. `style` is a class of page.html.
struct BarPart {
  std::string style;
  double value = 0.0;
  std::string text;  ///< in the bar where it fits, and while the mouse rests on it
};

struct Bar {
  std::string name;
  std::vector<BarPart> parts;  ///< side by side
  std::string number;          ///< behind the bar
};

/// Horizontal bars below each other, on one scale, with a heading and an explanation.
std::string bar_chart(const std::string& title, const std::string& explanation,
                      const std::vector<Bar>& bars) {
  constexpr double kRow = 30.0;
  constexpr double kRoomForNumbers = 1.15;
  double longest = 0.0;
  for (const Bar& bar : bars) {
    double length = 0.0;
    for (const BarPart& part : bar.parts) {
      length += part.value;
    }
    longest = std::max(longest, length);
  }
  TimelineCanvas canvas(0.0, kRoomForNumbers * longest);
  double top = 0.0;
  for (const Bar& bar : bars) {
    const Row row{top + 4.0, 21.0};
    const double baseline = top + 18.0;
    canvas.text("end", TimelineCanvas::kPlotLeft - 8.0, baseline, bar.name);
    double begin = 0.0;
    for (const BarPart& part : bar.parts) {
      const Interval stretch{begin, begin + part.value};
      if (part.style == "exposed") {
        canvas.block("transfer", stretch, row);  // below the hatching
      }
      canvas.block(part.style, stretch, row, part.text);
      canvas.block_label("on-" + part.style, stretch, row, {part.text});
      begin = stretch.end;
    }
    canvas.block("outline", {0.0, begin}, row);
    canvas.text("strong", canvas.x(begin) + 8.0, baseline, bar.number);
    top += kRow;
  }
  return fmt::format(
      "<section><h2>{}</h2>\n<div class=\"scroll\">{}</div>\n<p class=\"muted\">{}</p></section>\n",
      title, canvas.finish(top, title), explanation);
}

BarPart time_part(const char* style, const char* name, double ms) {
  return {style, ms, fmt::format("{} {:.1f} ms", name, ms)};
}

/// The modes and, last, the steps without communication.
std::vector<const ModeResult*> all_runs(const Comparison& result) {
  std::vector<const ModeResult*> all;
  for (const ModeResult& mode : result.modes) {
    all.push_back(&mode);
  }
  all.push_back(&result.ideal);
  return all;
}

std::string charts(const ComparisonInfo& info, const Comparison& result) {
  const double alone = result.alone_samples_per_second;
  const auto samples_bar = [alone](const std::string& name, double samples) {
    return Bar{name,
               {{"forward", samples, fmt::format("{:.0f} samples/s", samples)}},
               fmt::format("{:.2f} times", samples / std::max(alone, 1e-9))};
  };
  std::vector<Bar> steps;
  std::vector<Bar> communication;
  std::vector<Bar> throughput{samples_bar("one rank", alone)};
  for (const ModeResult* mode : all_runs(result)) {
    const StepTimes& t = mode->timing.median;
    const std::string name = mode == &result.ideal ? "(none)" : mode->mode;
    steps.push_back(
        {name,
         {time_part("forward", "forward", t.forward), time_part("backward", "backward", t.backward),
          time_part("idle", "idle", t.wait), time_part("optimizer", "optimizer", t.optimizer)},
         fmt::format("{:.2f} ms", mode->timing.step)});
    throughput.push_back(samples_bar(name, mode->timing.samples_per_second));
    if (mode != &result.ideal && info.ranks.size > 1) {
      communication.push_back(
          {name,
           {time_part("transfer", "hidden", t.comm - t.exposed),
            time_part("exposed", "exposed", t.exposed)},
           fmt::format("{:.2f} ms, {:.0f} %", t.comm, 100.0 * mode->timing.hidden_fraction)});
    }
  }
  const std::string label = emulated_text(info.options);
  std::string html = bar_chart("Step",
                               "Medians of forward, backward, idle (waiting for gradients) and "
                               "optimizer. The number is the median of the whole step" +
                                   label + ".",
                               steps);
  if (!communication.empty()) {
    html += bar_chart("Communication",
                      "Plain: hidden behind computation. Hatched: exposed. The numbers are comm "
                      "and hidden % of the table" +
                          label + ".",
                      communication);
  }
  return html + bar_chart("Throughput",
                          "One rank alone, all ranks together in each mode, and (none) without "
                          "communication. The number is the multiple of one rank's" +
                              label + ".",
                          throughput);
}

/// A picture shows the last steps, the table all timed ones: the line above a picture has both.
RunTrace panel_of(const Comparison& result, const ModeResult& mode) {
  RunTrace panel = mode.trace;
  const TimingSummary& t = mode.timing;
  panel.caption += fmt::format(". The table: median of {} timed steps, step {:.2f} ms",
                               result.timed_steps, t.step);
  if (&mode != &result.ideal && t.communicates) {
    panel.caption += fmt::format(", comm {:.2f}, exposed {:.2f}, hidden {:.0f} %", t.median.comm,
                                 t.median.exposed, 100.0 * t.hidden_fraction);
  }
  return panel;
}

}  // namespace

std::string comparison_html(const ComparisonInfo& info, const Comparison& result) {
  std::string summary;
  for (const std::string& line : comparison_start(info)) {
    summary += "<p class=\"muted\">" + escaped(line) + "</p>\n";
  }
  summary += html_table(
      grid_of(concat("mode", emulated_text(info.options)), comparison_rows(info, result)));
  summary += "<ul>\n";
  for (const std::string& note : comparison_notes(info, result)) {
    summary += "<li>" + escaped(note) + "</li>\n";
  }
  summary += "</ul>\n" + charts(info, result);
  summary +=
      "<h2>Time lines</h2>\n<p class=\"muted\">The last steps of each mode, all on one scale. "
      "Figures in bold are of the steps in the picture alone.</p>\n";
  std::vector<RunTrace> panels;
  for (const ModeResult* mode : all_runs(result)) {
    panels.push_back(panel_of(result, *mode));
  }
  return html_page(
      fmt::format("compare_modes: the synchronisation modes on {} ranks", info.ranks.size), summary,
      timeline_panels(panels));
}

}  // namespace brigade::apps
