#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/report/console.h"
#include "apps/training/run_info.h"
#include "dist/ddp/grad_averager.h"
#include "dist/elastic/survivors.h"
#include "dist/hooks/finite_check.h"
#include "dist/hooks/reduce_check.h"
#include "dist/launch/launch.h"
#include "nn/data/dataset.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"

/// From flags to the parts of a run.
namespace brigade::apps {

/// Ranks that are gone, as numbered by mpirun.
struct Loss {
  std::vector<int> ranks;
  std::string why;  ///< what the watch has found out
  std::chrono::steady_clock::time_point noticed;
};

/// Where this rank computes and with whom.
struct Runtime {
  Device device;
  std::unique_ptr<dist::Communicator> comm;
  dist::Survivors* survivors = nullptr;  ///< with --on-failure shrink
  int lost = 0;                          ///< ranks, since the start
  bool can_watch = true;                 ///< false: the Watch before the training did not work
  double flops_per_s = 0.0;              ///< product_rate() of one rank; 0: not measured
  Loss loss = {};                        ///< the last one
};

/// Rank 0 speaks; to stderr when stdout belongs to --json.
Console make_console(const Options& options, const dist::RankInfo& ranks);

/// How a step's samples are divided among the ranks that are left.
data::BatchGeometry geometry_of(const Options& options, const dist::RankInfo& ranks, int lost);

/// Compares the ranks' flags, chooses the device and connects the ranks; says once if a GPU was
/// hoped for in vain. Collective.
Runtime find_runtime(const Options& options, const dist::RankInfo& ranks, const Console& console);

/// With --reduce deterministic: makes `comm` add in the order of the ranks.
void choose_sum(const Options& options, dist::Communicator& comm);

/// Whether batches are read a step ahead: --prefetch, which by itself asks for a GPU or for more
/// cores (`cores`) than computing threads, because without a core of its own the reading thread
/// would only take the computation's.
bool prefetches(const Options& options, Device device, std::int64_t threads, std::int64_t cores);

/// Synthetic data has 8192 training samples, or one global batch if that is more.
data::DataSplits load_data(const Options& options, std::int64_t global_batch);

/// VerificationError unless all ranks have as many samples, and the same ones to train on. Hosts
/// may have different files, and a rank with one step more would wait for the others for ever.
/// Collective.
void check_same_data(const data::DataSplits& data, dist::Communicator& comm);

ModelShape shape_of(const Options& options, const data::Dataset& data);

/// Weights made from `seed`, or those of --init.
std::unique_ptr<nn::Module> make_model(const Options& options, const data::Dataset& data,
                                       std::uint64_t seed, Device device);

/// Dropout of this rank gets other random numbers than that of other ranks.
void drop_other_elements(std::uint64_t seed, int rank);

/// --lr, --schedule and --lr-warmup in a run of `steps`.
optim::LrSchedule schedule_of(const Options& options, std::int64_t steps);

std::unique_ptr<optim::Optimizer> make_optimizer(const Options& options,
                                                 const std::vector<autograd::Variable>& parameters);

/// With --check-finite: decorates the hook of `sync` with the check, and returns that; else null.
std::shared_ptr<dist::FiniteCheck> add_finite_check(const Options& options,
                                                    dist::DataParallelOptions& sync);

/// With --check-reduce: the check of every all-reduce over `place`; else null. UsageError on a GPU.
std::unique_ptr<dist::ReduceCheck> make_reduce_check(const Options& options, const Runtime& place);

/// In mode naive, which has no hooks, that check watches the gradients instead.
void watch_naive(const Options& options, dist::FiniteCheck* check,
                 const dist::GradAverager& data_parallel);

/// Memory is counted from here: the training's is without what made the data, and without the code
/// that libraries load when they are first used, hence one step of a tiny network.
ResidentPeak count_memory(Device device);

/// The buckets as they are now, for people.
std::vector<BucketInfo> describe_buckets(const dist::GradAverager& data_parallel);

/// The parameters that travel in each collective, by its label.
std::map<std::string, std::string> bucket_contents(const dist::GradAverager& data_parallel);

/// Which steps of a run from `first` to `steps` are recorded: --trace-steps of them after the first
/// five, or the last ones of a shorter run.
TraceSchedule trace_schedule(const Options& options, std::int64_t first, std::int64_t steps);

/// As many threads as --threads says, or as many as this rank has cores. UsageError for more than
/// the library is built for.
void set_threads(const Options& options, const dist::RankInfo& ranks);

/// Floating point operations per second of a product of two 1024 x 1024 matrices of this dtype, at
/// this thread's MatmulPrecision.
double product_rate(Device device, DType factors);

/// What setting_lines() and setting_figures() show, but for the number of parameters.
RunInfo describe_setting(const Options& options, const dist::RankInfo& ranks,
                         const data::DataSplits& data, const Runtime& place);

/// Everything about the run that is known before its first step. `steps_done`: by a run that this
/// one continues. UsageError if no step is left.
RunInfo describe_run(const Options& options, const dist::RankInfo& ranks,
                     const data::DataSplits& data, const dist::GradAverager& data_parallel,
                     const data::DistributedSampler& sampler, const Runtime& place,
                     std::int64_t steps_done);

}  // namespace brigade::apps
