#include "apps/comparison_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "apps/html_page.h"
#include "apps/timeline.h"
#include "apps/timeline_canvas.h"

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

/// One bar per mode, divided into what the step consists of; all on one scale.
class Bars {
 public:
  explicit Bars(const Comparison& result) : result_(result) {
    for (const ModeResult& mode : result.modes) {
      longest_ = std::max(longest_, mode.timing.step);
    }
    longest_ = std::max(longest_, result.ideal.timing.step);
  }

  std::string svg(const char* label) {
    for (const ModeResult& mode : result_.modes) {
      bar(mode.mode, mode);
    }
    bar("(none)", result_.ideal);
    return fmt::format(
        "<svg class=\"timeline\" role=\"img\" viewBox=\"0 0 {} {}\">{}</svg>\n"
        "<p class=\"muted\">From the left: forward, backward, idle (waiting for gradients), "
        "optimizer: medians in ms, each by itself. The number behind a bar is the median of the "
        "whole step{}.</p>\n",
        kWidth, y_, body_, label);
  }

 private:
  static constexpr double kWidth = 1000;
  static constexpr double kNames = 90;
  static constexpr double kNumbers = 90;
  static constexpr double kRow = 30;
  static constexpr double kBar = 21;

  double length(double ms) const {
    return longest_ > 0.0 ? ms / longest_ * (kWidth - kNames - kNumbers) : 0.0;
  }

  void bar(const std::string& name, const ModeResult& mode) {
    const StepTimes& t = mode.timing.median;
    const double text_y = y_ + 18;
    body_ += fmt::format("<text class=\"end\" x=\"{}\" y=\"{}\">{}</text>", kNames - 8, text_y,
                         escaped(name));
    double x = kNames;
    const std::array<std::pair<const char*, double>, 4> parts{{{"forward", t.forward},
                                                               {"backward", t.backward},
                                                               {"idle", t.wait},
                                                               {"optimizer", t.optimizer}}};
    for (const auto& [part, ms] : parts) {
      const double width = length(ms);
      const std::string label = fmt::format("{} {:.1f}", part, ms);
      body_ += fmt::format(
          "<rect class=\"{}\" x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\"><title>{}"
          "</title></rect>",
          part, x, y_ + 4, width, kBar, label + " ms");
      if (std::string_view(part) == "idle") {
        body_ += dots("idle", x, y_ + 4, width, kBar);
      }
      constexpr double kPerLetter = 6.5;
      if (width > kPerLetter * static_cast<double>(label.size())) {
        body_ += fmt::format("<text class=\"middle on-{}\" x=\"{:.2f}\" y=\"{}\">{}</text>", part,
                             x + width / 2, text_y, label);
      }
      x += width;
    }
    body_ +=
        fmt::format("<rect class=\"collective\" x=\"{}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\"/>",
                    kNames, y_ + 4, x - kNames, kBar);
    body_ += fmt::format("<text class=\"strong\" x=\"{:.2f}\" y=\"{}\">{:.2f} ms</text>", x + 8,
                         text_y, mode.timing.step);
    y_ += kRow;
  }

  const Comparison& result_;
  double longest_ = 0.0;
  double y_ = 0.0;
  std::string body_;
};

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
  body += table(info, result) + Bars(result).svg(emulated_text(info));
  body += paragraphs(comparison_notes(info, result));
  body +=
      "<h2>Time lines</h2>\n<p class=\"muted\">The last steps of each mode, all on one "
      "scale.</p>\n";
  std::vector<RunTrace> panels;
  std::transform(result.modes.begin(), result.modes.end(), std::back_inserter(panels),
                 [](const ModeResult& mode) { return mode.trace; });
  const TimelineScales scales = common_scales(panels);
  body += timeline_key();
  for (const RunTrace& panel : panels) {
    body += timeline_panel(panel, scales);
  }
  body += timeline_reading();
  return html_page(title, body);
}

}  // namespace brigade::apps
