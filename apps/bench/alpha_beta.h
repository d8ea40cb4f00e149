#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace brigade::apps {

/// One measured all-reduce.
struct MeasuredTime {
  double bytes = 0.0;
  double us = 0.0;
};

/// A network in the α-β model.
struct AlphaBeta {
  double alpha_us = 0.0;   ///< latency of one message
  double ns_per_byte = 0;  ///< β = 1 / bandwidth; 1 ns per byte is 1 GB/s
  double residual = 0.0;   ///< root mean square of (model - measured) / measured

  double gigabytes_per_s() const { return ns_per_byte > 0.0 ? 1.0 / ns_per_byte : 0.0; }
};

/// The cost of an all-reduce: consecutive messages, and bytes over the busiest link.
struct Cost {
  double messages = 0.0;
  double bytes = 0.0;
};

/// Cost of an all-reduce of S = `bytes` over N = `ranks` ranks. "halving" and "tree": the formulas
/// in dist/algorithms/halving_doubling.h and tree_all_reduce.h. Every other `algorithm`: a ring's,
/// 2 (N-1) messages and 2 (N-1)/N S bytes.
Cost cost_of(std::string_view algorithm, double bytes, int ranks);

/// Fits α and β of T(S) = messages α + bytes β, with messages and bytes from cost_of().
///
/// Linear least squares of the relative errors: sizes span five orders of magnitude, so absolute
/// errors would fit the largest sizes only and leave α undetermined. If a term would be negative,
/// it is 0 and the other is fitted alone. nullopt for one rank, for one size, or if bytes are
/// proportional to messages (a tree with whole segments).
std::optional<AlphaBeta> fit_alpha_beta(std::span<const MeasuredTime> times, int ranks,
                                        std::string_view algorithm = "ring");

}  // namespace brigade::apps
