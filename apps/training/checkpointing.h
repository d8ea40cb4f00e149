#pragma once

#include <filesystem>
#include <memory>

#include "apps/flags/options.h"
#include "dist/checkpoint/checkpoints.h"
#include "dist/watch/watch.h"
#include "nn/data/dataset.h"
#include "nn/module.h"
#include "optim/optimizer.h"

namespace brigade::apps {

/// With --checkpoint-every or --resume: the checkpoints of the run in `directory`, continued from
/// where --resume says; else null. The references must outlive it. UsageError: --resume latest
/// without --out; a checkpoint of another run. Collective.
std::unique_ptr<dist::Checkpoints> open_checkpoints(
    const Options& options, const std::filesystem::path& directory, const data::DataSplits& data,
    const nn::Module& model, dist::GradAverager& averager, optim::Optimizer& optimizer);

/// --stall-warn and --timeout; the report goes to `directory`.
dist::WatchOptions watch_options(const Options& options, const std::filesystem::path& directory);

}  // namespace brigade::apps
