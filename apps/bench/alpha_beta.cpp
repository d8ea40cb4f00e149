#include "apps/bench/alpha_beta.h"

#include <algorithm>
#include <cmath>

#include "dist/algorithms/segments.h"

namespace brigade::apps {

namespace {

/// The normal equations of minimising Σ (a x + b y - 1)², where each measured time T has been
/// divided into its own row: x = messages / T, y = bytes / T.
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
  const bool sizes_differ = std::ranges::any_of(
      times, [&](const MeasuredTime& time) { return time.bytes != times.front().bytes; });
  if (ranks < 2 || !sizes_differ) {
    return std::nullopt;
  }
  NormalEquations sums;
  for (const MeasuredTime& time : times) {
    const Cost cost = cost_of(algorithm, time.bytes, ranks);
    sums.add(cost.messages / time.us, cost.bytes / time.us);
  }
  const double determinant = sums.xx * sums.yy - sums.xy * sums.xy;
  if (determinant <= 1e-12 * sums.xx * sums.yy) {
    return std::nullopt;
  }
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
    const Cost cost = cost_of(algorithm, time.bytes, ranks);
    const double model = cost.messages * alpha + cost.bytes * beta;
    squares += std::pow(model / time.us - 1.0, 2);
  }
  constexpr double kNsPerUs = 1e3;
  return AlphaBeta{.alpha_us = alpha,
                   .ns_per_byte = beta * kNsPerUs,
                   .residual = std::sqrt(squares / static_cast<double>(times.size()))};
}

}  // namespace brigade::apps
