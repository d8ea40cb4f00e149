#include "apps/bench/alpha_beta.h"

#include <algorithm>
#include <cmath>

#include "dist/algorithms/segments.h"

namespace brigade::apps {

Cost cost_of(std::string_view algorithm, double bytes, int ranks) {
  const double n = ranks;
  if (algorithm == "halving") {
    const double power = std::exp2(std::floor(std::log2(n)));
    const double extra = power < n ? 2.0 : 0.0;  // to a neighbour, and back
    return {.messages = 2.0 * std::log2(power) + extra,
            .bytes = (2.0 * (power - 1.0) / power + extra) * bytes};
  }
  if (algorithm == "tree") {
    const double segment = std::min(bytes, static_cast<double>(dist::kSegmentBytes));
    const double segments = bytes > 0.0 ? bytes / segment : 1.0;
    const double messages = 2.0 * (std::ceil(std::log2(n)) + segments - 1.0);
    return {.messages = messages, .bytes = messages * 2.0 * segment};
  }
  return {.messages = 2.0 * (n - 1.0), .bytes = 2.0 * (n - 1.0) / n * bytes};
}

std::optional<AlphaBeta> fit_alpha_beta(std::span<const MeasuredTime> times, int ranks,
                                        std::string_view algorithm) {
  if (ranks < 2) {
    return std::nullopt;
  }
  // Minimise Σ (a x + b y - 1)², each row divided by its measured time T: x = messages / T,
  // y = bytes / T. These are the sums of the normal equations.
  double xx = 0.0, xy = 0.0, yy = 0.0, sum_x = 0.0, sum_y = 0.0;
  for (const MeasuredTime& time : times) {
    const Cost cost = cost_of(algorithm, time.bytes, ranks);
    const double x = cost.messages / time.us;
    const double y = cost.bytes / time.us;
    xx += x * x;
    xy += x * y;
    yy += y * y;
    sum_x += x;
    sum_y += y;
  }
  const double determinant = xx * yy - xy * xy;
  if (determinant <= 1e-12 * xx * yy) {
    return std::nullopt;  // x and y are proportional
  }
  double alpha = (sum_x * yy - sum_y * xy) / determinant;
  double beta = (sum_y * xx - sum_x * xy) / determinant;  // us per byte
  if (alpha < 0.0) {
    alpha = 0.0;
    beta = sum_y / yy;
  } else if (beta < 0.0) {
    beta = 0.0;
    alpha = sum_x / xx;
  }
  // At the minimum, Σ (a x + b y - 1)² = n - a Σx - b Σy, n rows.
  const double mean_square =
      1.0 - (alpha * sum_x + beta * sum_y) / static_cast<double>(times.size());
  constexpr double kNsPerUs = 1e3;
  return AlphaBeta{.alpha_us = alpha,
                   .ns_per_byte = beta * kNsPerUs,
                   .residual = std::sqrt(std::max(0.0, mean_square))};
}

}  // namespace brigade::apps
