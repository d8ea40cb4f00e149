#pragma once

#include <utility>
#include <vector>

#include "core/device.h"
#include "dist/comm/communicator.h"

namespace brigade::dist {

/// One measured all-reduce.
struct LinkPoint {
  double bytes = 0.0;
  double ms = 0.0;
  double cpu_ms = 0.0;  ///< processor time of rank 0's process, beside a thread that does not wait
};

/// How long all-reduces of a communicator take: measured for some sizes, interpolated between.
class LinkTimes {
 public:
  /// `points`: the smallest first; at least one. `head_start_ms`: by how much less an all-reduce
  /// takes on a link that was idle, because the link is a token bucket: clouds and `tc` shape links
  /// so that what has not been used may pass later at full speed.
  explicit LinkTimes(std::vector<LinkPoint> points, double head_start_ms = 0.0)
      : points_(std::move(points)), head_start_ms_(head_start_ms) {}

  /// Below the smallest measured size: its time. Above the largest: a line through the last two
  /// points.
  double ms(double bytes) const { return at(bytes, &LinkPoint::ms); }
  double cpu_ms(double bytes) const { return at(bytes, &LinkPoint::cpu_ms); }

  const std::vector<LinkPoint>& points() const { return points_; }
  double head_start_ms() const { return head_start_ms_; }

 private:
  double at(double bytes, double LinkPoint::*value) const;

  std::vector<LinkPoint> points_;
  double head_start_ms_;
};

/// All-reduces pieces of `memory`, a flat tensor whose numbers are lost: from 256 bytes up to all
/// of it or to what takes about 50 ms, on a link that is never idle. Takes about a second, longer
/// where a single all-reduce does. Rank 0's clock. Collective, with nothing else in flight.
LinkTimes measure_link(Communicator& comm, const Tensor& memory);

}  // namespace brigade::dist
