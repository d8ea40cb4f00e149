#include "apps/training/run_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/training/setup.h"
#include "core/cpu/threads.h"
#include "core/error.h"
#include "core/kernels.h"

namespace brigade::apps {

std::vector<BucketInfo> describe_buckets(const dist::GradAverager& data_parallel) {
  std::vector<BucketInfo> result;
  for (const dist::Bucket& bucket : data_parallel.buckets()) {
    BucketInfo info{.label = bucket.label, .bytes = bucket.grads.nbytes(), .parameters = {}};
    for (const std::size_t member : bucket.members) {
      info.parameters.push_back(data_parallel.parameters()[member].name());
    }
    result.push_back(std::move(info));
  }
  return result;
}

std::map<std::string, std::string> bucket_contents(const std::vector<BucketInfo>& buckets) {
  std::map<std::string, std::string> contents;
  for (const BucketInfo& bucket : buckets) {
    contents[bucket.label] = fmt::format("{}", fmt::join(bucket.parameters, ", "));
  }
  return contents;
}

bool prefetches(const Options& options, Device device, std::int64_t threads, std::int64_t cores) {
  const bool worth_it = device.is_cuda() || cores > threads;
  return options.prefetch == "on" || (options.prefetch == "auto" && worth_it);
}

RunInfo describe_setting(const Options& options, const dist::RankInfo& ranks,
                         const data::DataSplits& data, const Runtime& runtime) {
  RunInfo info;
  info.options = options;
  info.ranks = ranks;
  info.device = runtime.device;
  info.device_name = runtime.device.is_cuda() ? gpu_identity(runtime.device.index).name : "cpu";
  const bool on_cpu = !runtime.device.is_cuda();
  info.libraries = on_cpu ? blas_description() : cuda_info().runtime;
  if (on_cpu && options.dtype == "bf16") {
    info.libraries += ", " + bf16_description();
  }
  if (options.matmul_precision != "highest") {
    info.libraries += ", " + (on_cpu ? f32_description() : "f32 GEMM: " + options.matmul_precision);
  }
  info.comm = runtime.comm->description();
  info.flops_per_s = ranks.size * runtime.flops_per_s;
  info.threads = cpu_threads();
  info.train_size = data.train->size();
  info.test_size = data.test->size();
  info.classes = data.train->classes();
  info.shape = shape_of(options, *data.train);
  info.geometry = geometry_of(options, ranks, runtime.lost);
  return info;
}

RunInfo describe_run(const Options& options, const dist::RankInfo& ranks,
                     const data::DataSplits& data, const dist::GradAverager& data_parallel,
                     const data::DistributedSampler& sampler, const Runtime& runtime,
                     std::int64_t steps_done) {
  constexpr std::int64_t kProgressLines = 20;
  constexpr std::int64_t kLongestSilence = 200;  // steps
  RunInfo info = describe_setting(options, ranks, data, runtime);
  info.prefetches = prefetches(options, runtime.device, info.threads, ranks.threads);
  info.parameters = count_elements(data_parallel.parameters());
  info.steps_per_epoch = sampler.steps_per_epoch();
  info.steps = options.steps > 0 ? options.steps : options.epochs * info.steps_per_epoch;
  info.first_step = steps_done;
  if (steps_done >= info.steps && runtime.lost == 0) {
    throw UsageError(fmt::format(
        "--resume: expected more than the {} steps that are done, got {}; raise --steps",
        steps_done, info.steps));
  }
  // With --no-all-reduce every step is worth a line: how far the ranks have drifted apart.
  info.log_every = options.log_every > 0 ? options.log_every
                   : options.no_all_reduce
                       ? 1
                       : std::clamp<std::int64_t>(info.steps / kProgressLines, 1, kLongestSilence);
  info.buckets = describe_buckets(data_parallel);
  return info;
}

}  // namespace brigade::apps
