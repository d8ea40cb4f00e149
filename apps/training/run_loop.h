#pragma once

#include <optional>

#include "apps/report/console.h"
#include "apps/report/summary.h"
#include "apps/training/run_info.h"
#include "apps/training/trainer.h"

namespace brigade::apps {

/// What the loop reports to. `metrics` is null on all ranks but the first.
struct RunOutputs {
  const Console& console;
  MetricsFile* metrics = nullptr;
};

/// Trains for info.steps steps with a progress report every info.log_every of them and a test every
/// options.eval_every epochs and at the end. Fills the losses, test and times of the result.
/// Collective.
RunResult run_steps(const RunInfo& info, const TrainerParts& parts, const data::Dataset& test_data,
                    const RunOutputs& outputs);

}  // namespace brigade::apps
