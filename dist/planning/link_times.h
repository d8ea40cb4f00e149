#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/device.h"
#include "dist/comm/communicator.h"

namespace brigade::dist {

/// One measured all-reduce.
struct LinkPoint {
  double bytes = 0.0;
  double ms = 0.0;
  double cpu_ms = 0.0;  ///< processor time of this process, all threads
};

/// How long all-reduces of a communicator take: measured for some sizes, interpolated between.
class LinkTimes {
 public:
  /// `points`: the smallest first; at least one.
  explicit LinkTimes(std::vector<LinkPoint> points) : points_(std::move(points)) {}

  /// Below the smallest measured size: its time. Above the largest: a line through the last two
  /// points.
  double ms(double bytes) const { return at(bytes, &LinkPoint::ms); }
  double cpu_ms(double bytes) const { return at(bytes, &LinkPoint::cpu_ms); }

  const std::vector<LinkPoint>& points() const { return points_; }

 private:
  double at(double bytes, double LinkPoint::*value) const;

  std::vector<LinkPoint> points_;
};

/// Measures sizes from 16 KiB up to `most_bytes`, or to what takes 50 ms, on a link that is never
/// idle: about a second in all. Rank 0's clock. Collective, with nothing else in flight.
LinkTimes measure_link(Communicator& comm, Device device, std::size_t most_bytes);

}  // namespace brigade::dist
