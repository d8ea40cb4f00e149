#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dist/planning/best_buckets.h"

namespace brigade::apps {

/// What a rank computes in a step, in ms, when nothing communicates.
struct ComputeTimes {
  double forward = 0.0;  ///< of one micro-batch
  double backward = 0.0;
  double optimizer = 0.0;
  /// Of one backward. Parameters are numbered in the order in which forward reads them.
  std::vector<dist::GradientReady> order;
};

/// How long a collective takes, and for how long it keeps a core of this rank busy.
struct CollectiveCost {
  double ms = 0.0;
  double cpu_ms = 0.0;
  double latency_ms = 0.0;  ///< of `ms`, what does not depend on the number of bytes
};

/// The parameters that travel together, in one collective or in several chunks.
struct PlannedBucket {
  std::vector<std::size_t> members;
  std::vector<CollectiveCost> chunks;
};

/// When gradients travel; what a mode of training (grad_sync.h) does to the time line of a step.
struct Schedule {
  bool overlap = true;      ///< during backward; else after it, and backward's end is waited for
  bool one_by_one = false;  ///< without overlap: each collective is waited for before the next
  /// Collectives of backward only scatter. When the optimizer is done, as long ones gather the
  /// weights, the last bucket first; forward waits for a layer's weights.
  bool sharded = false;
  bool cross_step = false;   ///< the rest under the next forward; with overlap in order of need
  std::size_t accum = 1;     ///< micro-batches of a step
  bool defer_sync = false;   ///< only the last of them synchronises
  bool shares_core = false;  ///< collectives take their cpu_ms from the core that computes
  double head_start = 0.0;   ///< ms that a link saves up while it is idle (LinkTimes)
};

/// How many ms a step takes. Plays a few steps, event by event, on two resources: the rank, which
/// computes, and the network, which carries one collective at a time in the order of launch. Takes
/// the time of the last step: with cross_step the first has no communication to wait for. Durations
/// do not vary; differences between ranks must already be in `compute`. Every parameter is in one
/// bucket.
double planned_step(const ComputeTimes& compute, std::span<const PlannedBucket> buckets,
                    const Schedule& schedule);

}  // namespace brigade::apps
