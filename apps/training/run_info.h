#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/flags/options.h"
#include "apps/metrics/memory_use.h"
#include "apps/metrics/step_recorder.h"
#include "apps/metrics/timing_summary.h"
#include "apps/plan/profile.h"
#include "apps/training/evaluate.h"
#include "apps/training/model.h"
#include "apps/training/runtime.h"
#include "dist/ddp/grad_averager.h"
#include "dist/ddp/replica_check.h"
#include "dist/launch/launch.h"
#include "nn/data/dataset.h"
#include "nn/data/sampler.h"

namespace brigade::apps {

/// What a bucket holds, for people.
struct BucketInfo {
  std::string label;
  std::size_t bytes = 0;
  std::vector<std::string> parameters;
};

/// The buckets as they are now.
std::vector<BucketInfo> describe_buckets(const dist::GradAverager& data_parallel);

/// The parameters that travel in each collective, by its label.
std::map<std::string, std::string> bucket_contents(const std::vector<BucketInfo>& buckets);

/// What is known before the first step and stays so.
struct RunInfo {
  Options options;
  dist::RankInfo ranks;
  Device device;
  std::string libraries;    ///< that compute: "OpenBLAS 0.3.21 (...)"
  std::string device_name;  ///< "cpu", or the GPU's name
  std::string comm;         ///< that communicate
  std::int64_t threads = 1;
  bool prefetches = false;  ///< batches are read while the step before computes
  std::int64_t train_size = 0;
  std::int64_t test_size = 0;
  bool classes = false;
  ModelShape shape;
  std::int64_t parameters = 0;
  double flops_per_s = 0.0;  ///< of a large matrix product, all ranks together; 0: not measured
  data::BatchGeometry geometry;
  std::int64_t first_step = 0;  ///< those before were done by a run that this one continues
  std::int64_t steps = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t log_every = 1;
  std::vector<BucketInfo> buckets;  ///< of the first step
};

/// Whether batches are read a step ahead: --prefetch, which by itself asks for a GPU or for more
/// cores (`cores`) than computing threads. Without a core of its own the reading thread would take
/// the computation's.
bool prefetches(const Options& options, Device device, std::int64_t threads, std::int64_t cores);

/// What setting_lines() and setting_figures() show, but for the number of parameters.
RunInfo describe_setting(const Options& options, const dist::RankInfo& ranks,
                         const data::DataSplits& data, const Runtime& runtime);

/// Everything about the run that is known before its first step. `steps_done`: by a run that this
/// one continues. UsageError if no step is left.
RunInfo describe_run(const Options& options, const dist::RankInfo& ranks,
                     const data::DataSplits& data, const dist::GradAverager& data_parallel,
                     const data::DistributedSampler& sampler, const Runtime& runtime,
                     std::int64_t steps_done);

/// One logged step.
struct Progress {
  std::int64_t step = 0;            ///< steps done
  double loss = 0.0;                ///< of the last of them
  StepTimes times;                  ///< rank 0's medians since the last report
  double samples_per_second = 0.0;  ///< of all ranks, in such a step
  double seconds = 0.0;             ///< since training began, tests included
  double eta_seconds = 0.0;
  /// With --no-all-reduce: how far the ranks' weights are apart.
  std::optional<dist::RankDifference> difference;
};

/// How the run ended.
struct RunResult {
  double loss_first = 0.0;
  double loss_last = 0.0;
  Evaluation test;
  double best_accuracy = 0.0;
  double seconds = 0.0;
  TimingSummary timing;
  std::vector<BucketInfo> buckets;  ///< of all steps but perhaps the first
  bool buckets_rebuilt = false;
  TrafficPerStep traffic;
  std::vector<OperationTime> operations;  ///< of rank 0, in the recorded steps
  std::size_t recorded_steps = 0;
  std::optional<Profile> profile;           ///< if rank 0 had samples in steps that count
  RunTrace trace;                           ///< with --trace, on rank 0
  std::string graph;                        ///< with --graph
  WeightsHash weights;                      ///< after the last step
  double samples_per_second_overall = 0.0;  ///< loading, barriers and reports included, tests not
  std::optional<dist::RankDifference> difference;  ///< with --no-all-reduce
  MemoryStats tensors;                             ///< of this rank, when its last step was done
  MemoryUse memory;                                ///< of the rank that needed most
};

}  // namespace brigade::apps
