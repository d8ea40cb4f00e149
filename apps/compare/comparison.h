#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/training/run_info.h"
#include "nn/data/dataset.h"

/// The synchronisation modes side by side, on the same weights, samples and number of steps.
namespace brigade::apps {

/// What one mode cost and where it led.
struct ModeResult {
  std::string mode;  ///< as --mode, or "no communication"
  TimingSummary timing;
  TrafficPerStep traffic;
  WeightsHash weights;            ///< after the checked steps
  double against_first = 0.0;     ///< |w - w_first| / |w_first|, 0 when bit-equal to the first mode
  double against_one_rank = 0.0;  ///< likewise, to one rank on the joined batches
  RunTrace trace;                 ///< of the last steps of the last turn; on rank 0
};

struct Comparison {
  std::vector<ModeResult> modes;
  /// The same steps with every rank on its own: what no way to communicate can beat. Its trace is
  /// rank 0's alone: nobody keeps these ranks in step.
  ModeResult ideal;
  double alone_samples_per_second = 0.0;  ///< one rank, the others asleep
  bool equal = true;                      ///< every check passed

  const ModeResult* find(const std::string& mode) const;
};

/// Differences that rounding alone explains: the ranks' sums are added in another order than one
/// rank adds them (6e-9 after one step, 1e-7 after 500).
/// Adam divides each gradient by its size: where that is almost 0, rounding alone decides a step.
/// With a communication hook gradients are approximations, and any finite difference is allowed.
double rounding_tolerance(const Options& options);

/// Whether its weights are those of the other ranks, of the first mode and of one rank; NaN is not.
bool passes(const ModeResult& checked, double tolerance);

/// Runs it. Every mode has its own model and optimizer, from the same seed. In each of
/// --rounds rounds every mode has a turn of --steps steps, and the round starts with another mode
/// than the last one, so that a machine that gets slower with time does so for all.
/// Weights are compared after the first round. Collective; the result is complete on rank 0, and
/// `equal` is the same everywhere.
Comparison compare_modes(const RunInfo& info, const Runtime& runtime, const data::DataSplits& data);

}  // namespace brigade::apps
