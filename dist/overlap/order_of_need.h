#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dist/ddp/launch_order.h"

namespace brigade::dist {

/// What the order depends on, for one bucket.
struct BucketTimes {
  double ready_ms = 0.0;              ///< when backward has filled it
  std::size_t first_parameter = 0;    ///< lowest registration number: forward reads that first
  std::vector<double> piece_ms = {};  ///< how long the network needs for each piece
};

/// The order of need: whenever the network is free, the piece leaves which the next forward reads
/// first among those that are ready then.
///
/// Backward makes the last layer's gradients first and forward needs the first layer's weights
/// first. Sent as they come, the last layers' gradients occupy the network when backward ends and
/// the first layer's is queued behind them, although the last layers' have until the end of the
/// next forward. So a piece that is not urgent gives way to any that is, between two pieces; the
/// smaller the pieces, the sooner. This is list scheduling by priority, as in P3 (Jayarajan et al.,
/// MLSys 2019) and ByteScheduler (Peng et al., SOSP 2019), decided in advance from measured times:
/// the ranks must agree on one order, and to agree anew for each piece would cost a message.
///
/// When reality differs from the measured times the order stays: the network then waits a little
/// for a piece that comes late, or an urgent one waits for what has just begun.
std::vector<LaunchItem> in_order_of_need(std::span<const BucketTimes> buckets);

}  // namespace brigade::dist
