#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "apps/flags/options.h"
#include "apps/training/runtime.h"
#include "dist/checkpoint/checkpoints.h"
#include "nn/data/dataset.h"

namespace brigade::apps {

/// With --checkpoint-every or --resume: the checkpoints of the run in `directory`, continued from
/// where --resume says; else null. After ranks were lost the training goes on from memory, with
/// `steps_done`. The references must outlive it. UsageError: --resume latest without --out; a
/// checkpoint of another run. Collective.
std::unique_ptr<dist::Checkpoints> open_checkpoints(const Options& options, const Runtime& runtime,
                                                    const std::filesystem::path& directory,
                                                    const data::DataSplits& data,
                                                    dist::CheckpointParts parts,
                                                    std::int64_t steps_done);

}  // namespace brigade::apps
