#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace brigade::apps {

/// How long an all-reduce of so many bytes took.
struct MeasuredTime {
  double bytes = 0.0;
  double us = 0.0;
};

/// A network as the α-β model sees it.
struct AlphaBeta {
  double alpha_us = 0.0;   ///< latency of one message
  double ns_per_byte = 0;  ///< β: 1 / bandwidth; 1 ns per byte is 1 GB/s
  double residual = 0.0;   ///< root mean square of (model - measured) / measured

  double gbps() const { return ns_per_byte > 0.0 ? 1.0 / ns_per_byte : 0.0; }
};

/// α and β that explain the times best if the all-reduce were a ring over `ranks` ranks,
///
///   T(S) = 2 (N-1) α + 2 (N-1)/N S β        (dist/emulated_link.h)
///
/// by linear least squares of the relative errors: times span five orders of magnitude, and
/// absolute errors would let the largest sizes decide alone, so that α meant nothing. A term that
/// would come out negative is 0 and the other one is fitted alone. Nothing with one rank or with
/// fewer than two different sizes.
std::optional<AlphaBeta> fit_alpha_beta(std::span<const MeasuredTime> times, int ranks);

}  // namespace brigade::apps
