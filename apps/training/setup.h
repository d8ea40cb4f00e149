#pragma once

#include <memory>
#include <vector>

#include "apps/metrics/run_trace.h"
#include "apps/report/console.h"
#include "apps/training/runtime.h"
#include "dist/ddp/grad_averager.h"
#include "dist/hooks/reduce_check.h"
#include "dist/launch/launch.h"
#include "nn/data/dataset.h"
#include "nn/data/sampler.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"

/// From flags to the parts of a run.
namespace brigade::apps {

/// Rank 0 speaks; to stderr when stdout belongs to --json.
Console make_console(const Options& options, const dist::RankInfo& ranks);

/// How a step's samples are divided among the ranks that are left.
data::BatchGeometry geometry_of(const Options& options, const dist::RankInfo& ranks, int lost);

/// Synthetic data has 8192 training samples, or one global batch if that is more.
data::DataSplits load_data(const Options& options, std::int64_t global_batch);

/// VerificationError unless all ranks have as many samples, and the same ones to train on. Hosts
/// may have different files, and a rank with one step more would wait for the others for ever.
/// Collective.
void check_same_data(const data::DataSplits& data, dist::Communicator& comm);

/// --lr, --schedule and --lr-warmup in a run of `steps`.
optim::LrSchedule schedule_of(const Options& options, std::int64_t steps);

std::unique_ptr<optim::Optimizer> make_optimizer(const Options& options,
                                                 const std::vector<autograd::Variable>& parameters);

/// With --check-reduce: the check of every all-reduce of `runtime`; else null. UsageError on a GPU.
std::unique_ptr<dist::ReduceCheck> make_reduce_check(const Options& options,
                                                     const Runtime& runtime);

/// Which steps of a run from `first` to `steps` are recorded: --trace-steps of them after the first
/// five, or the last ones of a shorter run.
TraceSchedule trace_schedule(const Options& options, std::int64_t first, std::int64_t steps);

}  // namespace brigade::apps
