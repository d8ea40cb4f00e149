#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/metrics/intervals.h"

namespace brigade::apps {

/// A strip of the picture: its upper edge and its height, in pixels.
struct Row {
  double top = 0.0;
  double height = 0.0;
};

/// SVG in the making, whose x axis is time. The style sheet of page.html has its classes.
class TimelineCanvas {
 public:
  static constexpr double kWidth = 1200.0;
  static constexpr double kPlotLeft = 132.0;  ///< left of it: names of ranks and lanes
  static constexpr double kPlotWidth = 1054.0;

  /// `origin_ms` lies at kPlotLeft, `origin_ms + ms_per_full_width` at the right end of the plot.
  TimelineCanvas(double origin_ms, double ms_per_full_width);

  double x(double ms) const { return kPlotLeft + (ms - origin_) * pixels_per_ms_; }
  double width(const Interval& time) const { return (time.end - time.begin) * pixels_per_ms_; }

  /// `hover`, if any, is shown while the mouse rests on the block.
  void block(std::string_view style, const Interval& time, const Row& row,
             const std::string& hover = {});
  /// The first of `candidates` that fits into the block, in its middle; or nothing.
  void block_label(std::string_view style, const Interval& time, const Row& row,
                   const std::vector<std::string>& candidates);
  void vertical(std::string_view style, double ms, double top, double bottom) {
    line(style, x(ms), top, x(ms), bottom);
  }
  void horizontal(std::string_view style, const Interval& time, double y) {
    line(style, x(time.begin), y, x(time.end), y);
  }
  void text(std::string_view style, double x, double y, const std::string& text);
  /// From one place in the picture to another.
  void line(std::string_view style, double x1, double y1, double x2, double y2);

  /// What follows until close_group() shows `hover`.
  void open_group(const std::string& hover);
  void close_group() { svg_ += "</g>\n"; }

  /// The picture. `description` is for those who cannot see it.
  std::string finish(double height, const std::string& description) const;

 private:
  double origin_;
  double pixels_per_ms_;
  std::string svg_;
};

}  // namespace brigade::apps
