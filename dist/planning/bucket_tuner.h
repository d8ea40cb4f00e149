#pragma once

#include <optional>

#include "dist/ddp/grad_averager.h"
#include "dist/planning/ready_times.h"

namespace brigade::dist {

/// What a BucketTuner has found out. Times are in ms after the beginning of backward.
struct BucketChoice {
  bool changed = false;      ///< else the buckets that there were are as good
  double backward_ms = 0.0;  ///< when the last gradient is ready
  double before_ms = 0.0;    ///< when the last bucket was expected to arrive
  double now_ms = 0.0;       ///< when it is now
};

/// Chooses the buckets by measurement (--bucket-mb auto): notes when each gradient is ready in a
/// few backwards, measures the network, and takes the best plan for both (best_buckets.h). Rank 0's
/// times count for all. Afterwards it does nothing.
class BucketTuner {
 public:
  /// The averager must outlive it. It must launch plain all-reduces during backward: other modes
  /// and hooks need other times.
  explicit BucketTuner(GradAverager& averager)
      : averager_(averager), times_(averager.parameters()) {}

  /// To be called after each step; collective. In the fifth, or later if rank 0 had no samples:
  /// moves the parameters into the buckets that were chosen, and says so.
  std::optional<BucketChoice> after_step();

 private:
  BucketChoice choose();

  GradAverager& averager_;
  ReadyTimes times_;
  int steps_ = 0;
};

}  // namespace brigade::dist
