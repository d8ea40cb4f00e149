#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

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

/// What an all-reduce costs: messages that follow each other, and bytes through the busiest link.
struct Cost {
  double messages = 0.0;
  double bytes = 0.0;
};

/// Of `algorithm` for S = `bytes` over `ranks` ranks, as its header in dist/ has it: "halving"
/// (halving_doubling.h), "tree" (tree_all_reduce.h), and every other as a ring: 2 (N-1) messages,
/// 2 (N-1)/N S bytes (ring_all_reduce.h).
Cost cost_of(std::string_view algorithm, double bytes, int ranks);

/// α and β that explain the times best by cost_of(),
///
///   T(S) = messages α + bytes β
///
/// by linear least squares of the relative errors: times span five orders of magnitude, and
/// absolute errors would let the largest sizes decide alone, so that α meant nothing. A term that
/// would come out negative is 0 and the other one is fitted alone. Nothing with one rank, one size,
/// or where bytes grow as messages do (whole segments of a tree).
std::optional<AlphaBeta> fit_alpha_beta(std::span<const MeasuredTime> times, int ranks,
                                        std::string_view algorithm = "ring");

}  // namespace brigade::apps
