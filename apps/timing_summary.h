#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "apps/step_metrics.h"
#include "dist/communicator.h"

namespace brigade::apps {

/// The measured steps of this rank.
struct TimingHistory {
  std::vector<StepTimes> steps;
  std::vector<std::vector<CollectiveTimes>> collectives;  ///< of each step
};

/// What a run's steps took. A step takes as long as its slowest rank: `step` is the median over the
/// steps of the maximum over the ranks. All other figures are medians of one rank, the one whose
/// own median step is longest, so that they belong together.
struct TimingSummary {
  std::size_t measured_steps = 0;  ///< without warm-up
  int slowest_rank = 0;
  double step = 0.0, step_p10 = 0.0, step_p90 = 0.0, step_p95 = 0.0;
  StepTimes median;
  bool communicates = false;
  double hidden_fraction = 0.0;  ///< median of hidden / comm; meaningful if `communicates`
  std::vector<CollectiveTimes>
      collectives;  ///< medians; empty if the steps' numbers of collectives differ
};

/// Leaves out the first `warmup` steps, but never more than a quarter of them. Collective.
TimingSummary summarize(const TimingHistory& history, std::size_t warmup, dist::Communicator& comm);

/// The median of each part of the steps.
StepTimes median_times(std::span<const StepTimes> steps);

/// The value below which `fraction` of the sorted values lie, interpolated between neighbours; 0 of
/// none.
double quantile(std::vector<double> values, double fraction);

}  // namespace brigade::apps
