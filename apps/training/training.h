#pragma once

#include "apps/flags/options.h"
#include "dist/launch/launch.h"

namespace brigade::apps {

/// The whole of a training program, after its flags: data, model, optimizer, steps, results.
/// Returns the exit code. Collective.
int run_training(Options options, const dist::RankInfo& ranks);

}  // namespace brigade::apps
