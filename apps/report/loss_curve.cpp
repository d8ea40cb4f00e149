#include "apps/report/loss_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <vector>

#include "apps/report/html_page.h"
#include "apps/report/timeline_canvas.h"

namespace brigade::apps {
namespace {

struct Point {
  double step = 0.0, loss = 0.0;
  std::optional<double> test_loss = {};
};

std::vector<Point> points_of(const std::string& metrics) {
  std::vector<Point> points;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("step") &&
        json.value("loss", nlohmann::json()).is_number()) {
      points.push_back({.step = json["step"], .loss = json["loss"]});
      if (json.value("test_loss", nlohmann::json()).is_number()) {
        points.back().test_loss = json["test_loss"];
      }
    }
  }
  return points;
}

}  // namespace

std::string loss_curve(const std::string& metrics) {
  const std::vector<Point> points = points_of(metrics);
  if (points.size() < 2) {
    return {};
  }
  constexpr double kTop = 12.0, kHeight = 240.0;
  constexpr int kParts = 4;  // of each axis
  double most = std::numeric_limits<double>::min();
  for (const Point& point : points) {
    most = std::max({most, point.loss, point.test_loss.value_or(0.0)});
  }
  const double last = points.back().step;
  TimelineCanvas canvas(0.0, last);  // of steps instead of ms
  const auto y = [&](double loss) { return kTop + kHeight * (1.0 - loss / most); };
  for (int i = 0; i <= kParts; ++i) {
    const double share = static_cast<double>(i) / kParts;
    canvas.horizontal("grid", {0.0, last}, y(share * most));
    canvas.text("small muted end", TimelineCanvas::kPlotLeft - 6.0, y(share * most) + 3.0,
                fmt::format("{:.2f}", share * most));
    canvas.text("small muted middle", canvas.x(share * last), kTop + kHeight + 14.0,
                fmt::format("{:.0f}", share * last));
  }
  for (std::size_t i = 1; i < points.size(); ++i) {
    canvas.line("curve", canvas.x(points[i - 1].step), y(points[i - 1].loss),
                canvas.x(points[i].step), y(points[i].loss));
  }
  for (const Point& point : points) {
    if (point.test_loss) {
      canvas.block("test", {point.step - 0.004 * last, point.step + 0.004 * last},
                   {y(*point.test_loss) - 4.0, 8.0},
                   fmt::format("test after step {:.0f}: {:.4f}", point.step, *point.test_loss));
    }
  }
  return html_part("loss", {{"curve", canvas.finish(kTop + kHeight + 20.0, "the loss")},
                            {"first", fmt::format("{:.4f}", points.front().loss)},
                            {"last", fmt::format("{:.4f}", points.back().loss)}});
}

}  // namespace brigade::apps
