#include "apps/report/timeline_canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/report/html_page.h"

namespace brigade::apps {

namespace {

constexpr double kBaseline = 0.35;   // of the size: from the middle of letters down to their foot
constexpr double kNarrow = 3.0;      // a block of few pixels would be all border
constexpr double kInvisible = 0.02;  // in pixels: not worth the bytes

/// A little more than `text` takes at this size of type, whichever sans-serif font there is.
double text_width(const std::string& text, double size) {
  constexpr double kWide = 0.75;  // of the size: capitals and the underscores between them
  constexpr double kOther = 0.6;
  double width = 0.0;
  for (const char c : text) {
    const bool continues = (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;  // UTF-8
    const bool wide = c == '_' || c == 'm' || c == 'w' || (c >= 'A' && c <= 'Z');
    width += continues ? 0.0 : size * (wide ? kWide : kOther);
  }
  return width;
}

}  // namespace

// Along x + y = constant, cut off at the edges. The lines of neighbouring rectangles meet.
std::string hatching(double left, double top, double width, double height) {
  constexpr double kDistance = 7.0;
  const double right = left + width;
  const double bottom = top + height;
  const auto first = static_cast<int>(std::ceil((left + top) / kDistance));
  std::string lines;
  for (int i = first; i * kDistance < right + bottom; ++i) {
    const double begin = std::max(left, i * kDistance - bottom);
    const double end = std::min(right, i * kDistance - top);
    lines += fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", begin, i * kDistance - begin, end,
                         i * kDistance - end);
  }
  return R"(<path class="hatch" d=")" + lines + "\"/>\n";
}

namespace {

// On a grid of the whole picture; each row is a line dashed with nothing but round ends.
std::string dots(std::string_view style, double left, double top, double width, double height) {
  constexpr double kDistance = 5.0;
  const double first = kDistance * std::ceil(left / kDistance);
  const auto rows = static_cast<int>(height / kDistance);
  const double margin = (height - (rows - 1) * kDistance) / 2.0;
  std::string lines;
  for (int row = 0; row < rows && first < left + width; ++row) {
    lines +=
        fmt::format("M{:.1f} {:.1f}H{:.1f}", first, top + margin + row * kDistance, left + width);
  }
  return fmt::format(R"(<path class="dots {}" d="{}"/>)", style, lines) + "\n";
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
  if (style == "exposed") {
    svg_ += hatching(x(time.begin), row.top, width(time), row.height);
  } else if (style == "idle" || style == "waiting") {
    svg_ += dots(style, x(time.begin), row.top, width(time), row.height);
  }
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
