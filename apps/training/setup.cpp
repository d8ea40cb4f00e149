#include "apps/training/setup.h"

#include <algorithm>

#include "apps/flags/hook_flag.h"
#include "apps/training/text.h"
#include "core/error.h"
#include "core/runtime/trace.h"
#include "dist/comm/agreement.h"
#include "nn/data/fashion_mnist.h"
#include "nn/data/synthetic.h"
#include "optim/adam.h"
#include "optim/sgd.h"

namespace brigade::apps {

Console make_console(const Options& options, const dist::RankInfo& ranks) {
  return {ranks.rank == 0, options.json ? Console::Target::err : Console::Target::out,
          options.color};
}

data::BatchGeometry geometry_of(const Options& options, const dist::RankInfo& ranks, int lost) {
  data::BatchGeometry geometry{
      .batch = options.batch, .accum = options.accum, .ranks = ranks.size, .rank = ranks.rank};
  if (lost > 0) {
    geometry.stride = options.batch * options.accum * (ranks.size + lost);
  }
  if (options.keep_global_batch) {
    const std::int64_t together = options.batch * ranks.size;  // in a micro-batch
    geometry.accum = (geometry.step_stride() + together - 1) / together;
  }
  return geometry;
}

data::DataSplits load_data(const Options& options, std::int64_t global_batch) {
  const ScopeName scope(kWritesFiles);
  if (options.model == "gpt") {
    return load_text(options);
  }
  if (options.data == "fashion-mnist") {
    return data::load_fashion_mnist(options.data_dir, options.train_samples);
  }
  constexpr std::int64_t kUsualSamples = 8192;
  const std::int64_t samples =
      options.train_samples > 0 ? options.train_samples : std::max(kUsualSamples, global_batch);
  return data::make_synthetic({.in = options.synthetic_in,
                               .out = options.synthetic_out,
                               .classes = options.loss == "cross_entropy",
                               .seed = options.seed},
                              samples);
}

void check_same_data(const data::DataSplits& data, dist::Communicator& comm) {
  dist::check_same_lines("data",
                         {fmt::format("{} training samples", data.train->size()),
                          fmt::format("{} test samples", data.test->size()),
                          fmt::format("training samples of checksum {}", data.train->checksum())},
                         comm);
}

optim::LrSchedule schedule_of(const Options& options, std::int64_t steps) {
  using Shape = optim::LrSchedule::Shape;
  return {.lr = options.lr,
          .shape = options.schedule == "cosine"   ? Shape::cosine
                   : options.schedule == "linear" ? Shape::linear
                                                  : Shape::constant,
          .warmup = options.lr_warmup,
          .steps = steps};
}

std::unique_ptr<optim::Optimizer> make_optimizer(
    const Options& o, const std::vector<autograd::Variable>& parameters) {
  const bool matrices = o.model == "gpt";
  if (o.optimizer == "sgd") {
    return std::make_unique<optim::SGD>(parameters,
                                        optim::SGD::Options{.lr = o.lr,
                                                            .momentum = o.momentum,
                                                            .weight_decay = o.weight_decay,
                                                            .nesterov = o.nesterov,
                                                            .decay_matrices_only = matrices});
  }
  return std::make_unique<optim::Adam>(parameters,
                                       optim::Adam::Options{.lr = o.lr,
                                                            .weight_decay = o.weight_decay,
                                                            .decoupled = o.optimizer == "adamw",
                                                            .decay_matrices_only = matrices});
}

std::unique_ptr<dist::ReduceCheck> make_reduce_check(const Options& options,
                                                     const Runtime& runtime) {
  if (!options.check_reduce) {
    return nullptr;
  }
  if (runtime.device.is_cuda()) {
    throw UsageError(
        fmt::format("--check-reduce: expected ranks on the CPU, where the host sees an all-reduce "
                    "end, got {}; leave it out, or use --verify-every",
                    runtime.device));
  }
  return std::make_unique<dist::ReduceCheck>(*runtime.comm, wire_type(options.comm_hook));
}

TraceSchedule trace_schedule(const Options& options, std::int64_t first, std::int64_t steps) {
  const std::int64_t recorded = std::min(options.trace_steps, steps - first);
  return {.skip = std::min(first + kTraceSkip, steps - recorded), .steps = recorded};
}

}  // namespace brigade::apps
