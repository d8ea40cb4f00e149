#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "apps/metrics/step_metrics.h"
#include "dist/comm/communicator.h"

namespace brigade::apps {

/// One timed step of this rank.
struct TimedStep {
  StepTimes times;
  std::vector<CollectiveTimes> collectives;
  double samples = 0.0;  ///< on all ranks together
};

/// What the latest steps of this rank took. Long runs forget: at least the last kKept steps are
/// here, at most twice as many.
class TimingHistory {
 public:
  static constexpr std::size_t kKept = 1000;

  /// `samples`: of this step, on all ranks together.
  void add(const StepSpans& spans, double samples);

  std::span<const TimedStep> steps() const { return steps_; }
  std::size_t forgotten() const { return forgotten_; }

 private:
  std::vector<TimedStep> steps_;
  std::size_t forgotten_ = 0;
};

/// The rank for which the others wait: it computes longer than they do, or its data comes later, by
/// a quarter and by a millisecond, in three of four steps, and by 50 ms in all measured steps.
/// Ranks that are alike differ less. Or its host has slow links (find_slow_link), which are
/// measured once, after the last step.
struct Straggler {
  enum class Reason : std::uint8_t { compute, data, network };

  int rank = 0;
  Reason reason = Reason::compute;
  double ms = 0.0;      ///< its median per step; network: of one exchange with a neighbour
  double others = 0.0;  ///< median of the other ranks' medians
  double share = 0.0;   ///< of the steps, in which no rank took longer; network: 0
};

/// What a run's steps took. A step takes as long as its slowest rank: `step` is the median over the
/// steps of the maximum over the ranks, and so are its percentiles. `median` and what belongs to it
/// are medians of one rank, the one whose own median step is longest, so that they fit together.
struct TimingSummary {
  std::size_t measured_steps = 0;  ///< without warm-up
  int slowest_rank = 0;
  double step = 0.0, step_p10 = 0.0, step_p90 = 0.0, step_p95 = 0.0;
  double samples_per_second = 0.0;  ///< mean samples of these steps / `step`
  StepTimes median;
  std::vector<double> rank_compute;  ///< per rank: median of step - wait
  std::vector<double> rank_load;     ///< per rank: median of load
  std::optional<Straggler> straggler;
  /// How much a rank's computation varies: the standard deviation of ln(step - wait) of one rank,
  /// the median rank, estimated from the 16 % and 84 % quantiles.
  double spread = 0.0;
  bool communicates = false;
  double hidden_fraction = 0.0;  ///< of the same rank and steps; meaningful if `communicates`
  std::vector<CollectiveTimes>
      collectives;  ///< medians; empty if the steps' numbers of collectives differ
};

/// Mean traffic of one step.
struct TrafficPerStep {
  double collectives = 0.0;
  double bytes_reduced = 0.0;  ///< handed to all-reduces, per rank
  double bytes_sent = 0.0;     ///< by rank 0
};

TrafficPerStep per_step(const dist::Traffic& traffic, std::int64_t steps);

/// Leaves out the first `warmup` steps, but never more than a quarter of them. Collective.
TimingSummary summarize(const TimingHistory& history, std::size_t warmup, dist::Communicator& comm);

/// How many samples all ranks process per second when a step takes `step_ms`.
double samples_per_second(std::span<const TimedStep> steps, double step_ms);

std::vector<StepTimes> times_of(std::span<const TimedStep> steps);

/// The median of each part of the steps.
StepTimes median_times(std::span<const StepTimes> steps);

/// The share of the communication that cost no time: Σ hidden / Σ comm over `steps`; 0 without
/// communication. Of sums, because a ratio of medians mixes different steps: a rank that hides
/// everything in 4 steps of 10 has a hidden median of 0.
double hidden_fraction(std::span<const StepTimes> steps);

/// The value below which `fraction` of the sorted values lie, interpolated between neighbours; 0 of
/// none.
double quantile(std::vector<double> values, double fraction);

}  // namespace brigade::apps
