// train_mlp: trains a multilayer perceptron, data parallel over the ranks that mpirun starts.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "apps/report/chrome_trace.h"
#include "apps/report/report.h"
#include "apps/report/timeline.h"
#include "apps/training/inject.h"
#include "apps/training/link_choice.h"
#include "apps/training/program.h"
#include "apps/training/run_loop.h"
#include "apps/training/setup.h"
#include "autograd/engine.h"
#include "core/cpu/threads.h"
#include "core/error.h"
#include "core/io/safetensors.h"
#include "core/runtime/context.h"
#include "dist/hooks/finite_check.h"
#include "nn/weights.h"
#include "optim/sgd.h"

namespace brigade::apps {

namespace {

constexpr const char* kMetrics = "metrics.jsonl";
constexpr const char* kSummary = "summary.json";
constexpr const char* kTrace = "trace.json.gz";
constexpr const char* kTimeline = "timeline.html";

/// Compares the ranks' weights and collects what only the ranks together know.
void compare_ranks(RunResult& result, const dist::GradAverager& data_parallel) {
  dist::Communicator& comm = data_parallel.communicator();
  const std::vector<std::uint64_t> hashes =
      dist::all_gather_values(comm, dist::hash_parameters(data_parallel.parameters()));
  result.params_hash = hashes.front();
  result.params_equal = std::all_of(hashes.begin(), hashes.end(),
                                    [&](std::uint64_t hash) { return hash == hashes.front(); });
}

/// Writes weights and summary, says how it went. Only rank 0 calls it.
void write_results(const Console& console, const RunInfo& info, const RunResult& result,
                   const std::filesystem::path& directory, const MetricsFile& metrics,
                   const std::vector<autograd::Variable>& parameters) {
  const Options& options = info.options;
  const std::string summary = summary_json(info, result);
  OutputFiles files;
  if (!options.save.empty() && result.params_equal) {  // else: whose weights would they be?
    files.write(options.save, [&] { nn::save_parameters(parameters, options.save); });
  }
  files.write(directory / kMetrics, [&] { metrics.check(); });
  files.write(directory / kSummary, [&] { write_file_atomically(directory / kSummary, summary); });
  if (options.trace) {
    files.write(directory / kTrace, [&] { write_chrome_trace(directory / kTrace, result.trace); });
    files.write(directory / kTimeline, [&] {
      write_file_atomically(directory / kTimeline, timeline_html("train_mlp", {result.trace}));
    });
  }
  print_result(console, info, result, files.written());
  if (options.json) {
    files.attempt([&] { console.result(summary); });
  }
  files.check();
}

/// Memory is counted from here: what made the data is no part of the training's, nor is the code
/// that libraries load when they are first used, hence one step of a tiny network.
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

std::filesystem::path make_directory(const Options& options, dist::Communicator& comm) {
  if (comm.rank() == 0 && options.out.empty() && !options.save.empty()) {
    check_output_files({options.save});  // before there is a runs/<n> for nothing
  }
  return agree_on_directory(options, comm);
}

/// On rank 0, once it is clear that the other files can be written as well. Those of an earlier run
/// go: beside the metrics of a run that fails there is no other run's summary.
std::optional<MetricsFile> open_metrics(const Options& options, const dist::Communicator& comm,
                                        const std::filesystem::path& directory) {
  if (comm.rank() != 0) {
    return std::nullopt;
  }
  std::vector<std::filesystem::path> files{directory / kMetrics, directory / kSummary};
  if (options.trace) {
    files.insert(files.end(), {directory / kTrace, directory / kTimeline});
  }
  if (!options.save.empty()) {
    files.emplace_back(options.save);
  }
  check_output_files(files);
  for (const char* name : {kMetrics, kSummary, kTrace, kTimeline}) {
    std::error_code ignored;  // it can be written, so it will be replaced; or there is none
    std::filesystem::remove(directory / name, ignored);
  }
  return std::make_optional<MetricsFile>(directory / kMetrics);
}

Runtime open_runtime(const Options& options, const dist::RankInfo& ranks, const Console& console) {
  Runtime place = find_runtime(options, ranks, console);
  measure_rates(options, place);
  return place;
}

int train(Options options, const dist::RankInfo& ranks) {
  const Console console(ranks.rank == 0, options.json ? Console::Target::err : Console::Target::out,
                        options.color);
  set_threads(options, ranks);
  Runtime place = open_runtime(options, ranks, console);
  FaultInjector faults(options.inject, *place.comm);
  const data::BatchGeometry geometry{
      .batch = options.batch, .accum = options.accum, .ranks = ranks.size, .rank = ranks.rank};
  const data::DataSplits data = load_data(options, geometry.global_batch());
  check_same_data(data, *place.comm);
  emulate_chosen_link(options, *data.train, place, console);
  dist::Communicator& comm = *place.comm;
  const ResidentPeak resident = count_memory(place.device);
  const auto model =
      make_mlp(shape_of(options, *data.train), faults.weight_seed(options.seed), place.device);
  if (!options.init.empty()) {
    nn::load(*model, options.init);
  }
  const auto parameters = faults.parameters(model->parameters());
  dist::DataParallelOptions sync = faults.synchronisation(options.data_parallel(), parameters);
  const auto finite_check =
      options.check_finite ? std::make_shared<dist::FiniteCheck>(sync.hook) : nullptr;
  if (finite_check) {
    sync.hook = finite_check;
  }
  dist::GradAverager data_parallel(parameters, comm, sync);
  if (finite_check && options.mode == "naive") {
    finite_check->watch_naive(data_parallel.parameters());
  }
  const auto loss = make_loss(options.loss);
  const auto optimizer = make_optimizer(options, data_parallel.parameters());
  data::DistributedSampler sampler(data.train->size(), geometry, options.seed, options.shuffle,
                                   data::parse_uneven(options.uneven));
  const RunInfo info = describe_run(options, ranks, data, data_parallel, sampler, place);
  nn::Module& trained = faults.around(*model, options.accum, info.steps);
  const std::filesystem::path directory = make_directory(options, comm);
  std::optional<MetricsFile> metrics = open_metrics(options, comm, directory);
  print_first_screen(console, info);
  RunResult result =
      run_steps(info,
                {.model = trained,
                 .loss = *loss,
                 .optimizer = *optimizer,
                 .data_parallel = data_parallel,
                 .sampler = sampler,
                 .data = *data.train,
                 .device = place.device,
                 .deferred_sync = options.deferred_sync(),
                 .overlaps = options.overlaps(),
                 .trace = trace_schedule(info),
                 .never_sync = options.never_syncs(),
                 .clip_norm = options.clip_norm,
                 .in_flight = options.in_flight(),
                 .prefetch = info.prefetches ? data::Prefetch::on : data::Prefetch::off,
                 .finite_check = finite_check.get()},
                *data.test, {console, metrics ? &*metrics : nullptr});
  compare_ranks(result, data_parallel);
  result.choices = Context::current().choices();
  result.memory = largest_of_ranks(
      measure_memory(data_parallel, *optimizer, parameters, data, resident, result.tensors), comm);
  if (comm.rank() == 0) {
    write_results(console, info, result, directory, *metrics, data_parallel.parameters());
  }
  comm.barrier();  // nobody ends the job while rank 0 still writes
  if (!result.params_equal && !options.never_syncs()) {
    data_parallel.verify_parameters_equal();  // throws, and names the parameter
  }
  return 0;
}

}  // namespace

}  // namespace brigade::apps

int main(int argc, char** argv) {
  return brigade::apps::run_program(argc, argv, brigade::apps::Program::train_mlp,
                                    brigade::apps::train);
}
