#include "apps/compare/comparison_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "apps/report/html_page.h"
#include "apps/report/timeline.h"
#include "apps/report/timeline_canvas.h"

namespace brigade::apps {

namespace {

std::string table_row(const ModeRow& row) {
  std::string html = fmt::format("<tr><th scope=\"row\">{}</th>", escaped(row.name));
  for (const std::string& text : row.cells) {
    html += fmt::format("<td>{}</td>", escaped(text));
  }
  return html + "</tr>\n";
}

std::string table(const ComparisonInfo& info, const Comparison& result) {
  std::string html = fmt::format("<table>\n<tr><th scope=\"col\">mode{}</th>", emulated_text(info));
  for (const char* title : kColumns) {
    html += fmt::format("<th scope=\"col\">{}</th>", title);
  }
  html += "</tr>\n";
  for (const ModeRow& row : comparison_rows(result)) {
    html += table_row(row);
  }
  return html + "</table>\n";
}

/// A stretch of a bar. `style` is a class of page_css().
struct Part {
  const char* style;
  std::string name;  ///< shown in the bar where it fits, and while the mouse rests on it
  double value = 0.0;
};

/// Horizontal bars below each other, on one scale.
class BarChart {
 public:
  /// A bar as long as `longest` fills the width.
  explicit BarChart(double longest) : longest_(longest) {}

  /// `number` is written behind the bar, which consists of `parts` side by side.
  void bar(const std::string& name, const std::vector<Part>& parts, const std::string& number) {
    const double text_y = y_ + 18;
    body_ += fmt::format("<text class=\"end\" x=\"{}\" y=\"{}\">{}</text>", kNames - 8, text_y,
                         escaped(name));
    double x = kNames;
    for (const Part& part : parts) {
      draw(part, x, text_y);
      x += length(part.value);
    }
    body_ +=
        fmt::format("<rect class=\"outline\" x=\"{}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\"/>",
                    kNames, y_ + 4, x - kNames, kBar);
    body_ += fmt::format("<text class=\"strong\" x=\"{:.2f}\" y=\"{}\">{}</text>", x + 8, text_y,
                         number);
    y_ += kRow;
  }

  std::string svg(const std::string& title, const std::string& explanation) const {
    return fmt::format(
        "<section><h2>{}</h2>\n<div class=\"scroll\"><svg class=\"timeline\" role=\"img\" "
        "aria-label=\"{}\" viewBox=\"0 0 {} {}\">{}</svg></div>\n<p "
        "class=\"muted\">{}</p></section>\n",
        title, title, kWidth, y_, body_, explanation);
  }

 private:
  static constexpr double kWidth = 1000;
  static constexpr double kNames = 90;
  static constexpr double kNumbers = 130;
  static constexpr double kRow = 30;
  static constexpr double kBar = 21;

  double length(double value) const {
    return longest_ > 0.0 ? value / longest_ * (kWidth - kNames - kNumbers) : 0.0;
  }

  void draw(const Part& part, double x, double text_y) {
    const double width = length(part.value);
    const std::string_view style(part.style);
    body_ += fmt::format(
        "<rect class=\"{}\" x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\"><title>{}"
        "</title></rect>",
        style == "exposed" ? "transfer" : style, x, y_ + 4, width, kBar, part.name);
    body_ += style == "idle" ? dots("idle", x, y_ + 4, width, kBar) : "";
    body_ += style == "exposed" ? hatching(x, y_ + 4, width, kBar) : "";
    constexpr double kPerLetter = 6.5;
    if (width > kPerLetter * static_cast<double>(part.name.size())) {
      body_ += fmt::format("<text class=\"middle on-{}\" x=\"{:.2f}\" y=\"{}\">{}</text>",
                           style == "exposed" ? "comm" : style, x + width / 2, text_y, part.name);
    }
  }

  double longest_;
  double y_ = 0.0;
  std::string body_;
};

Part time_part(const char* style, const char* name, double ms) {
  return {style, fmt::format("{} {:.1f} ms", name, ms), ms};
}

/// The modes and, last, the ideal.
std::vector<std::pair<std::string, const ModeResult*>> contestants(const Comparison& result) {
  std::vector<std::pair<std::string, const ModeResult*>> all;
  for (const ModeResult& mode : result.modes) {
    all.emplace_back(mode.mode, &mode);
  }
  all.emplace_back("(none)", &result.ideal);
  return all;
}

double largest(const Comparison& result, double (*figure)(const TimingSummary&)) {
  double most = 0.0;
  for (const auto& [name, mode] : contestants(result)) {
    most = std::max(most, figure(mode->timing));
  }
  return most;
}

std::string step_chart(const Comparison& result, const char* label) {
  BarChart chart(largest(result, [](const TimingSummary& timing) { return timing.step; }));
  for (const auto& [name, mode] : contestants(result)) {
    const StepTimes& t = mode->timing.median;
    chart.bar(
        name,
        {time_part("forward", "forward", t.forward), time_part("backward", "backward", t.backward),
         time_part("idle", "idle", t.wait), time_part("optimizer", "optimizer", t.optimizer)},
        fmt::format("{:.2f} ms", mode->timing.step));
  }
  return chart.svg("Step", fmt::format("From the left: forward, backward, idle (waiting for "
                                       "gradients), optimizer: medians, each by itself. The number "
                                       "behind a bar is the median of the whole step{}.",
                                       label));
}

std::string communication_chart(const Comparison& result, const char* label) {
  BarChart chart(largest(result, [](const TimingSummary& timing) { return timing.median.comm; }));
  for (const ModeResult& mode : result.modes) {
    const TimingSummary& t = mode.timing;
    chart.bar(mode.mode,
              {time_part("transfer", "hidden", t.median.comm - t.median.exposed),
               time_part("exposed", "exposed", t.median.exposed)},
              fmt::format("{:.2f} ms, {:.0f} %", t.median.comm, 100.0 * t.hidden_fraction));
  }
  return chart.svg("Communication",
                   fmt::format("Plain: hidden behind computation; hatched: exposed. The numbers "
                               "are comm and hidden % of the table{}.",
                               label));
}

std::string throughput_chart(const Comparison& result, const char* label) {
  BarChart chart(std::max(
      result.alone_samples_per_second,
      largest(result, [](const TimingSummary& timing) { return timing.samples_per_second; })));
  const auto add = [&](const std::string& name, double samples) {
    const double ratio = samples / std::max(result.alone_samples_per_second, 1e-9);
    chart.bar(name, {{"forward", fmt::format("{:.0f} samples/s", samples), samples}},
              fmt::format("{:.2f} times", ratio));
  };
  add("one rank", result.alone_samples_per_second);
  for (const auto& [name, mode] : contestants(result)) {
    add(name, mode->timing.samples_per_second);
  }
  return chart.svg(
      "Throughput",
      fmt::format("One rank alone, all ranks together in each mode, and (none) without "
                  "communication. Behind a bar: how many times one rank's{}.",
                  label));
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

std::string paragraphs(const std::vector<std::string>& lines) {
  std::string html = "<ul>\n";
  for (const std::string& line : lines) {
    html += fmt::format("<li>{}</li>\n", escaped(line));
  }
  return html + "</ul>\n";
}

}  // namespace

std::string comparison_html(const ComparisonInfo& info, const Comparison& result) {
  const std::string title =
      fmt::format("compare_modes: the synchronisation modes on {} ranks", info.ranks.size);
  std::string body = fmt::format("<h1>{}</h1>\n", title);
  for (const std::string& line : comparison_start(info)) {
    body += fmt::format("<p class=\"muted\">{}</p>\n", escaped(line));
  }
  const char* label = emulated_text(info);
  body += "<div class=\"scroll\">" + table(info, result) + "</div>\n";
  body += paragraphs(comparison_notes(info, result));
  body += step_chart(result, label);
  body += info.ranks.size > 1 ? communication_chart(result, label) : "";
  body += throughput_chart(result, label);
  body +=
      "<h2>Time lines</h2>\n<p class=\"muted\">The last steps of each mode, all on one "
      "scale. Figures in bold are of the steps in the picture alone.</p>\n";
  std::vector<RunTrace> panels;
  std::transform(result.modes.begin(), result.modes.end(), std::back_inserter(panels),
                 [&result](const ModeResult& mode) { return panel_of(result, mode); });
  panels.push_back(panel_of(result, result.ideal));
  const TimelineScales scales = common_scales(panels);
  body += timeline_key();
  for (const RunTrace& panel : panels) {
    body += timeline_panel(panel, scales);
  }
  body += timeline_reading();
  return html_page(title, body);
}

}  // namespace brigade::apps
