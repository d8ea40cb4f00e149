#include "apps/report/timeline_canvas.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/report/html_page.h"

namespace brigade::apps {

namespace {

constexpr double kBaseline = 0.35;   // of the size: from the middle of letters down to their foot
constexpr double kNarrow = 3.0;      // a block of few pixels would be all border
constexpr double kInvisible = 0.02;  // in pixels: not worth the bytes

/// A little more than `text` takes at this size of type, whichever sans-serif font there is.
double text_width(std::string_view text, double size) {
  constexpr double kPerLetter = 0.65;  // of the size
  const auto letters = std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });  // UTF-8
  return kPerLetter * size * static_cast<double>(letters);
}

}  // namespace

TimelineCanvas::TimelineCanvas(double origin_ms, double ms_per_full_width)
    : origin_(origin_ms),
      pixels_per_ms_(ms_per_full_width > 0.0 ? kPlotWidth / ms_per_full_width : 0.0) {}

void TimelineCanvas::block(std::string_view style, const Interval& time, const Row& row,
                           const std::string& hover) {
  if (width(time) < kInvisible) {
    return;
  }
  svg_ += fmt::format(R"(<rect class="{}{}" x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:.1f}")",
                      style, width(time) < kNarrow ? " narrow" : "", x(time.begin), row.top,
                      width(time), row.height);
  svg_ += hover.empty() ? "/>\n" : "><title>" + escaped(hover) + "</title></rect>\n";
}

void TimelineCanvas::block_label(std::string_view style, const Interval& time, const Row& row,
                                 const std::vector<std::string>& candidates) {
  constexpr double kMargin = 3.0;
  const double size = style.find("small") != std::string_view::npos ? 9.5 : 11.0;
  const auto fits = [&](const std::string& text) {
    return text_width(text, size) + kMargin <= width(time);
  };
  const auto best = std::find_if(candidates.begin(), candidates.end(), fits);
  if (best != candidates.end()) {
    text(fmt::format("middle {}", style), x((time.begin + time.end) / 2.0),
         row.top + row.height / 2.0 + kBaseline * size, *best);
  }
}

void TimelineCanvas::line(std::string_view style, double x1, double y1, double x2, double y2) {
  svg_ += fmt::format(R"(<line class="{}" x1="{:.2f}" y1="{:.1f}" x2="{:.2f}" y2="{:.1f}"/>)"
                      "\n",
                      style, x1, y1, x2, y2);
}

void TimelineCanvas::text(std::string_view style, double x, double y, const std::string& text) {
  svg_ += fmt::format(R"(<text class="{}" x="{:.2f}" y="{:.1f}">{}</text>)"
                      "\n",
                      style, x, y, escaped(text));
}

void TimelineCanvas::open_group(const std::string& hover) {
  svg_ += "<g><title>" + escaped(hover) + "</title>\n";
}

std::string TimelineCanvas::finish(double height, const std::string& description) const {
  return fmt::format(
             R"(<svg class="timeline" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">)"
             "\n",
             kWidth, height, escaped(description)) +
         svg_ + "</svg>\n";
}

}  // namespace brigade::apps
