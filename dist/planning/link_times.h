#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/device.h"
#include "dist/comm/communicator.h"

namespace brigade::dist {

/// How long all-reduces of a communicator take: measured for some sizes, interpolated between.
class LinkTimes {
 public:
  /// `points`: (bytes, ms), the smallest first; at least one.
  explicit LinkTimes(std::vector<std::pair<double, double>> points) : points_(std::move(points)) {}

  /// Below the smallest measured size: its time. Above the largest: a line through the last two
  /// points.
  double ms(std::size_t bytes) const;

 private:
  std::vector<std::pair<double, double>> points_;
};

/// Measures sizes from 16 KiB up to `most_bytes`, or to what takes 50 ms: about a second at most.
/// The shortest of three times counts, as other programs only ever make one longer. Rank 0's
/// clock. Collective, with nothing else in flight.
LinkTimes measure_link(Communicator& comm, Device device, std::size_t most_bytes);

}  // namespace brigade::dist
