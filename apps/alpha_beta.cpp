#include "apps/alpha_beta.h"

#include <algorithm>
#include <cmath>

namespace brigade::apps {

namespace {

/// The normal equations of minimising Σ (a x + b y - 1)², where each measured time T has been
/// divided into its own row: x = 2 (N-1) / T, y = 2 (N-1)/N S / T.
struct NormalEquations {
  double xx = 0.0, xy = 0.0, yy = 0.0, x = 0.0, y = 0.0;

  void add(double row_x, double row_y) {
    xx += row_x * row_x;
    xy += row_x * row_y;
    yy += row_y * row_y;
    x += row_x;
    y += row_y;
  }
};

}  // namespace

std::optional<AlphaBeta> fit_alpha_beta(std::span<const MeasuredTime> times, int ranks) {
  const bool sizes_differ = std::ranges::any_of(
      times, [&](const MeasuredTime& time) { return time.bytes != times.front().bytes; });
  if (ranks < 2 || !sizes_differ) {
    return std::nullopt;
  }
  const double steps = 2.0 * (ranks - 1);
  const auto sent = [&](const MeasuredTime& time) { return steps / ranks * time.bytes; };
  NormalEquations sums;
  for (const MeasuredTime& time : times) {
    sums.add(steps / time.us, sent(time) / time.us);
  }
  const double determinant = sums.xx * sums.yy - sums.xy * sums.xy;
  double alpha = (sums.x * sums.yy - sums.y * sums.xy) / determinant;
  double beta = (sums.y * sums.xx - sums.x * sums.xy) / determinant;  // us per byte
  if (alpha < 0.0) {
    alpha = 0.0;
    beta = sums.y / sums.yy;
  } else if (beta < 0.0) {
    beta = 0.0;
    alpha = sums.x / sums.xx;
  }
  double squares = 0.0;
  for (const MeasuredTime& time : times) {
    const double model = steps * alpha + sent(time) * beta;
    squares += std::pow(model / time.us - 1.0, 2);
  }
  constexpr double kNsPerUs = 1e3;
  return AlphaBeta{.alpha_us = alpha,
                   .ns_per_byte = beta * kNsPerUs,
                   .residual = std::sqrt(squares / static_cast<double>(times.size()))};
}

}  // namespace brigade::apps
