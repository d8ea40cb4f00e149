#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace brigade::dist {

/// One collective: a chunk of a bucket, by their numbers.
struct LaunchItem {
  std::size_t bucket = 0;
  std::size_t chunk = 0;
  bool operator==(const LaunchItem&) const = default;
};

/// What the order depends on, for one bucket.
struct BucketTimes {
  double ready_ms = 0.0;              ///< when backward has filled it
  std::size_t first_parameter = 0;    ///< lowest registration number: forward reads that first
  std::vector<double> chunk_ms = {};  ///< how long the network needs for each chunk; at least one
};

/// The order of need: whenever the network is free, it takes the chunk that the next forward reads
/// first among those that are ready then.
///
/// Backward computes the last layer's gradients first, and forward needs the first layer's weights
/// first. In bucket order the last layers' gradients occupy the network when backward ends, and the
/// first layer's wait behind them, although the last layers' have until the end of the next
/// forward. In order of need a chunk gives way to a more urgent one between two chunks; the smaller
/// the chunks, the sooner. This is list scheduling by priority, as in P3 (Jayarajan et al., MLSys
/// 2019) and ByteScheduler (Peng et al., SOSP 2019). It is decided in advance from measured times,
/// because the ranks must agree on one order, and agreeing anew for each chunk would cost a
/// message.
///
/// When reality differs from the measured times the order stays: the network then waits a little
/// for a chunk that comes late, or an urgent one waits for what has just begun.
std::vector<LaunchItem> in_order_of_need(std::span<const BucketTimes> buckets);

}  // namespace brigade::dist
