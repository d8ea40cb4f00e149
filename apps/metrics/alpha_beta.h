#pragma once

#include <optional>
#include <span>

#include "dist/planning/link_times.h"

namespace brigade::apps {

/// A network in the α-β model.
struct AlphaBeta {
  double alpha_us = 0.0;   ///< latency of one message
  double ns_per_byte = 0;  ///< β = 1 / bandwidth; 1 ns per byte is 1 GB/s
  double residual = 0.0;   ///< root mean square of (model - measured) / measured

  double gigabytes_per_s() const { return ns_per_byte > 0.0 ? 1.0 / ns_per_byte : 0.0; }
};

/// Fits α and β of T(S) = 2 (N-1) α + 2 (N-1)/N S β, the cost of a ring over N = `ranks` ranks
/// (dist/algorithms/ring_all_reduce.h). Of another algorithm: the ring that takes the same time.
///
/// Linear least squares of the relative errors: sizes span five orders of magnitude, so absolute
/// errors would fit the largest sizes only and leave α undetermined. If a term would be negative,
/// it is 0 and the other is fitted alone. nullopt for one rank or one size.
std::optional<AlphaBeta> fit_alpha_beta(std::span<const dist::LinkPoint> times, int ranks);

}  // namespace brigade::apps
