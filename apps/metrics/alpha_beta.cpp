#include "apps/metrics/alpha_beta.h"

#include <algorithm>
#include <cmath>

namespace brigade::apps {

std::optional<AlphaBeta> fit_alpha_beta(std::span<const dist::LinkPoint> times, int ranks) {
  if (ranks < 2) {
    return std::nullopt;
  }
  // Minimise Σ (a x + b y - 1)², each row divided by its measured time T: x = 2 (N-1) / T,
  // y = 2 (N-1)/N S / T. These are the sums of the normal equations.
  const double hops = 2.0 * (ranks - 1);
  double xx = 0.0, xy = 0.0, yy = 0.0, sum_x = 0.0, sum_y = 0.0;
  for (const dist::LinkPoint& time : times) {
    const double us = 1e3 * time.ms;
    const double x = hops / us;
    const double y = hops / ranks * time.bytes / us;
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
