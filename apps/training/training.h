#pragma once

#include <functional>

#include "apps/flags/options.h"
#include "apps/report/console.h"
#include "dist/launch/launch.h"
#include "nn/module.h"

namespace brigade::apps {

/// What rank 0 does with the trained model.
using AfterTraining = std::function<void(nn::Module& model, const Console& console)>;

/// The whole of a training program, after its flags: data, model, optimizer, steps, results.
/// Returns the exit code. Collective.
int run_training(Options options, const dist::RankInfo& ranks, const AfterTraining& afterwards);

}  // namespace brigade::apps
