#include "apps/training/setup.h"

#include <malloc.h>

#include <algorithm>
#include <limits>

#include "apps/doctor/doctor.h"
#include "apps/flags/hook_flag.h"
#include "apps/flags/rules.h"
#include "apps/training/text.h"
#include "autograd/engine.h"
#include "core/config.h"
#include "core/cpu/threads.h"
#include "core/error.h"
#include "core/ops.h"
#include "core/random.h"
#include "core/runtime/context.h"
#include "core/runtime/trace.h"
#include "dist/algorithms/ordered_all_reduce.h"
#include "dist/launch/agreement.h"
#include "nn/data/fashion_mnist.h"
#include "nn/data/synthetic.h"
#include "nn/gpt2_files.h"
#include "nn/weights.h"
#include "optim/adam.h"
#include "optim/sgd.h"

namespace brigade::apps {

namespace {

/// What --low-memory does besides Optimizer::zero_grad(GradMemory::discard).
void save_memory() {
  constexpr std::size_t kSpares = 6 << 20;  // with less the step of a GPT takes longer
  constexpr int kTrim = 1 << 20;            // bytes of libraries' buffers that may wait for reuse
  Context::current().allocator(kCpu)->set_spares(kSpares);
  static_cast<void>(mallopt(M_TRIM_THRESHOLD, kTrim));
}

}  // namespace

Console make_console(const Options& options, const dist::RankInfo& ranks) {
  return {ranks.rank == 0, options.json ? Console::Target::err : Console::Target::out,
          options.color};
}

Runtime find_runtime(const Options& options, const dist::RankInfo& ranks, const Console& console) {
  const auto control = dist::make_communicator("mpi", kCpu);
  dist::check_same_lines("program", {message_of("version ", kVersion)}, *control);
  dist::check_same_lines("flags", options.agreement(), *control);
  std::string note;
  Runtime place;
  place.device = dist::choose_device(options.device, ranks, *control, note);
  if (!note.empty()) {
    console.warn(note);
  }
  for (const std::string& idle : idle_flags(options)) {
    console.warn(message_of("[rank 0] warning: no effect: ", idle));
  }
  Context::current().set_matmul_precision(options.matmul_precision == "high" ? MatmulPrecision::high
                                          : options.matmul_precision == "medium"
                                              ? MatmulPrecision::medium
                                              : MatmulPrecision::highest);
  if (options.low_memory && place.device.is_cuda()) {
    throw UsageError("--low-memory: expected --device cpu, got a GPU; leave it out");
  }
  if (options.low_memory) {
    save_memory();
  }
  if (options.shrinks() && place.device.is_cuda()) {
    throw UsageError("--on-failure shrink: expected --device cpu, got a GPU: NCCL has no sockets");
  }
  place.comm = dist::make_communicator(options.shrinks() ? "mpi" : options.comm, place.device);
  choose_sum(options, *place.comm);
  const RankFacts mine = collect_facts(ranks, place.device, *control, *place.comm);
  for (const std::string& trap : warnings_of(gather_facts(mine, *control), /*with_gpus=*/false)) {
    console.warn("warning: " + trap);
  }
  return place;
}

void choose_sum(const Options& options, dist::Communicator& comm) {
  if (options.reduce == "deterministic" && !comm.sums_in_rank_order()) {
    comm.use(std::make_unique<dist::OrderedAllReduce>());
  }
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

bool prefetches(const Options& options, Device device, std::int64_t threads, std::int64_t cores) {
  const bool worth_it = device.is_cuda() || cores > threads;
  return options.prefetch == "on" || (options.prefetch == "auto" && worth_it);
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
                         {message_of(data.train->size(), " training samples"),
                          message_of(data.test->size(), " test samples"),
                          message_of("training samples of checksum ", data.train->checksum())},
                         comm);
}

ModelShape shape_of(const Options& options, const data::Dataset& data) {
  ModelShape shape;
  shape.precision = options.dtype == "bf16" ? autograd::Precision::bf16 : autograd::Precision::full;
  shape.bias = options.bias;
  if (options.model == "gpt") {
    shape.gpt = options.gpt;
    if (!options.init.empty() && nn::has_gpt2_config(options.init) &&
        options.gpt.vocabulary != data.output_width()) {
      throw UsageError(message_of("--tokenizer: expected the vocabulary of --init, ",
                                  options.gpt.vocabulary, " tokens, got ", data.output_width()));
    }
    shape.gpt->vocabulary = data.output_width();
    shape.gpt->precision = shape.precision;
  } else {
    shape.widths = options.hidden;
  }
  shape.widths.insert(shape.widths.begin(), data.input_width());
  shape.widths.push_back(data.output_width());
  return shape;
}

std::unique_ptr<nn::Module> make_model(const Options& options, const data::Dataset& data,
                                       std::uint64_t seed, Device device) {
  auto model = make_network(shape_of(options, data), seed, device);
  const auto* gpt = dynamic_cast<const nn::GPT*>(model.get());
  if (!options.init.empty()) {
    const ScopeName scope(kWritesFiles);
    gpt != nullptr ? nn::load_gpt2(*gpt, options.init) : nn::load(*model, options.init);
  }
  return model;
}

void drop_other_elements(std::uint64_t seed, int rank) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2⁶⁴ divided by the golden ratio
  set_dropout_position(
      {.seed = seed + kOdd * static_cast<std::uint64_t>(rank), .sequence = sequences::kDropout});
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

std::shared_ptr<dist::FiniteCheck> add_finite_check(const Options& options,
                                                    dist::DataParallelOptions& sync) {
  if (!options.check_finite) {
    return nullptr;
  }
  auto check = std::make_shared<dist::FiniteCheck>(sync.hook);
  sync.hook = check;
  return check;
}

std::unique_ptr<dist::ReduceCheck> make_reduce_check(const Options& options, const Runtime& place) {
  if (!options.check_reduce) {
    return nullptr;
  }
  if (place.device.is_cuda()) {
    throw UsageError(
        message_of("--check-reduce: expected ranks on the CPU, where the host sees an "
                   "all-reduce end, got ",
                   place.device, "; leave it out, or use --verify-every"));
  }
  return std::make_unique<dist::ReduceCheck>(*place.comm, wire_type(options.comm_hook));
}

void watch_naive(const Options& options, dist::FiniteCheck* check,
                 const dist::GradAverager& data_parallel) {
  if (check != nullptr && options.mode == "naive") {
    check->watch_naive(data_parallel.parameters());
  }
}

ResidentPeak count_memory(Device device) {
  {
    const auto model = make_mlp({.widths = {8, 8, 8}}, /*seed=*/0, device);
    const Tensor x = Tensor::zeros({4, 8}, DType::f32, device);
    const auto loss = make_loss("mse");
    autograd::backward((*loss)(model->forward(autograd::Variable(x)), x));
    optim::SGD(model->parameters(), {.lr = 0.01}).step();
  }
  CachingAllocator& allocator = *Context::current().allocator(device);
  allocator.trim();
  allocator.reset_peak();
  return {};
}

std::vector<BucketInfo> describe_buckets(const dist::GradAverager& data_parallel) {
  std::vector<BucketInfo> result;
  for (const dist::Bucket& bucket : data_parallel.buckets()) {
    BucketInfo info{.bytes = bucket.grads.nbytes(), .parameters = {}};
    for (const std::size_t member : bucket.members) {
      info.parameters.push_back(data_parallel.parameters()[member].name());
    }
    result.push_back(std::move(info));
  }
  return result;
}

std::map<std::string, std::string> bucket_contents(const dist::GradAverager& data_parallel) {
  std::map<std::string, std::string> contents;
  for (const dist::Bucket& bucket : data_parallel.buckets()) {
    std::string& names = contents[bucket.label];
    for (const std::size_t member : bucket.members) {
      names += (names.empty() ? "" : ", ") + data_parallel.parameters()[member].name();
    }
  }
  return contents;
}

TraceSchedule trace_schedule(const Options& options, std::int64_t first, std::int64_t steps) {
  const std::int64_t recorded = std::min(options.trace_steps, steps - first);
  return {.skip = std::min(first + kTraceSkip, steps - recorded), .steps = recorded};
}

void set_threads(const Options& options, const dist::RankInfo& ranks) {
  if (options.threads > max_cpu_threads()) {
    throw UsageError(message_of("--threads: expected at most ", max_cpu_threads(),
                                ", which this OpenBLAS is built for, got ", options.threads));
  }
  set_cpu_threads(static_cast<int>(options.threads > 0
                                       ? options.threads
                                       : std::min<std::int64_t>(ranks.threads, max_cpu_threads())));
}

double product_rate(Device device, DType factors) {
  constexpr std::int64_t kSide = 1024;
  constexpr int kTimes = 10;
  const Tensor a = Tensor::zeros({kSide, kSide}, factors, device);
  Tensor c = Tensor::empty({kSide, kSide}, DType::f32, device);
  double shortest = std::numeric_limits<double>::max();
  for (int i = 0; i < kTimes; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    ops::gemm(a, ops::Trans::no, a, ops::Trans::yes, {}, c);
    compute_stream(device).synchronize();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    shortest = std::min(shortest, spent.count());
  }
  return 2.0 * kSide * kSide * kSide / shortest;
}

RunInfo describe_setting(const Options& options, const dist::RankInfo& ranks,
                         const data::DataSplits& data, const Runtime& place) {
  RunInfo info;
  info.options = options;
  info.ranks = ranks;
  info.device = place.device;
  info.device_name = place.device.is_cuda() ? gpu_identity(place.device.index).name : "cpu";
  const bool on_cpu = !place.device.is_cuda();
  info.libraries = on_cpu ? blas_description() : cuda_info().runtime;
  if (on_cpu && options.dtype == "bf16") {
    info.libraries += ", " + bf16_description();
  }
  if (options.matmul_precision != "highest") {
    info.libraries += ", " + (on_cpu ? f32_description() : "f32 GEMM: " + options.matmul_precision);
  }
  info.comm = place.comm->description();
  info.flops_per_s = ranks.size * place.flops_per_s;
  info.threads = cpu_threads();
  info.train_size = data.train->size();
  info.test_size = data.test->size();
  info.classes = data.train->classes();
  info.shape = shape_of(options, *data.train);
  info.geometry = geometry_of(options, ranks, place.lost);
  return info;
}

RunInfo describe_run(const Options& options, const dist::RankInfo& ranks,
                     const data::DataSplits& data, const dist::GradAverager& data_parallel,
                     const data::DistributedSampler& sampler, const Runtime& place,
                     std::int64_t steps_done) {
  constexpr std::int64_t kProgressLines = 20;
  constexpr std::int64_t kLongestSilence = 200;  // steps
  RunInfo info = describe_setting(options, ranks, data, place);
  info.prefetches = prefetches(options, place.device, info.threads, ranks.threads);
  info.parameters = count_elements(data_parallel.parameters());
  info.steps_per_epoch = sampler.steps_per_epoch();
  info.steps = options.steps > 0 ? options.steps : options.epochs * info.steps_per_epoch;
  info.first_step = steps_done;
  if (steps_done >= info.steps && place.lost == 0) {
    throw UsageError(message_of("--resume: expected more than the ", steps_done,
                                " steps that are done, got ", info.steps, "; raise --steps"));
  }
  // With --no-all-reduce every step is worth a line: how far the ranks have drifted apart.
  info.log_every = options.log_every > 0 ? options.log_every
                   : options.never_syncs()
                       ? 1
                       : std::clamp<std::int64_t>(info.steps / kProgressLines, 1, kLongestSilence);
  info.buckets = describe_buckets(data_parallel);
  return info;
}

}  // namespace brigade::apps
