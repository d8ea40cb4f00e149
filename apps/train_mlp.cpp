// train_mlp: trains a multilayer perceptron, data parallel over the ranks that mpirun starts.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "apps/chrome_trace.h"
#include "apps/inject.h"
#include "apps/program.h"
#include "apps/report.h"
#include "apps/run_loop.h"
#include "apps/setup.h"
#include "apps/timeline.h"
#include "autograd/engine.h"
#include "core/context.h"
#include "core/cpu/threads.h"
#include "core/error.h"
#include "core/serialize.h"
#include "dist/ring_trace.h"
#include "optim/sgd.h"

namespace brigade::apps {

namespace {

/// Compares the ranks' weights and collects what only the ranks together know.
void compare_ranks(RunResult& result, const dist::DataParallel& data_parallel) {
  dist::Communicator& comm = data_parallel.communicator();
  const std::vector<std::uint64_t> hashes =
      dist::all_gather_values(comm, dist::hash_parameters(data_parallel.parameters()));
  result.params_hash = hashes.front();
  result.params_equal = std::all_of(hashes.begin(), hashes.end(),
                                    [&](std::uint64_t hash) { return hash == hashes.front(); });
}

/// The weights first: they are what a run is for.
std::vector<std::filesystem::path> output_files(const Options& options,
                                                const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  if (!options.save.empty()) {
    files.emplace_back(options.save);
  }
  files.push_back(directory / "summary.json");
  if (options.trace) {
    files.push_back(directory / "trace.json.gz");
    files.push_back(directory / "timeline.html");
  }
  return files;
}

/// Writes weights and summary, says how it went. Only rank 0 calls it.
void write_results(const Console& console, const RunInfo& info, const RunResult& result,
                   const std::filesystem::path& directory,
                   const std::vector<autograd::Variable>& parameters) {
  const std::string summary = summary_json(info, result);
  std::vector<std::string> written{directory / "metrics.jsonl"};
  for (const std::filesystem::path& file : output_files(info.options, directory)) {
    if (file == info.options.save) {
      if (!result.params_equal) {
        continue;  // whose weights would they be?
      }
      save_weights(file, parameters);
    } else if (file.filename() == "summary.json") {
      write_file_atomically(file, summary);
    } else if (file.filename() == "timeline.html") {
      write_file_atomically(file, timeline_html("train_mlp", {result.trace}));
    } else {
      write_chrome_trace(file, result.trace);
    }
    written.push_back(file);
  }
  print_result(console, info, result, written);
  if (info.options.json) {
    console.result(summary);
  }
}

/// With --trace-ring. Collective.
void show_ring(const Console& console, const Options& options, const Workplace& place) {
  if (!options.trace_ring) {
    return;
  }
  for (const std::string& line : dist::trace_ring(*place.comm, place.device)) {
    console.line(line);
  }
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

/// On rank 0, once it is clear that the other files can be written as well.
std::optional<MetricsFile> open_metrics(const Options& options, const dist::Communicator& comm,
                                        const std::filesystem::path& directory) {
  if (comm.rank() != 0) {
    return std::nullopt;
  }
  check_output_files(output_files(options, directory));
  return std::make_optional<MetricsFile>(directory / "metrics.jsonl");
}

Workplace open_workplace(const Options& options, const dist::RankInfo& ranks,
                         const Console& console) {
  Workplace place = find_workplace(options, ranks, console);
  measure_rates(options, place);
  return place;
}

int train(const Options& options, const dist::RankInfo& ranks) {
  const Console console(ranks.rank == 0, options.json ? Console::Target::err : Console::Target::out,
                        options.color);
  set_cpu_threads(static_cast<int>(threads_of(options, ranks)));
  const Workplace place = open_workplace(options, ranks, console);
  dist::Communicator& comm = *place.comm;
  FaultInjector faults(options.inject, comm);
  const dist::BatchGeometry geometry{
      .batch = options.batch, .accum = options.accum, .ranks = comm.size(), .rank = comm.rank()};
  const DataSplits data = load_data(options, geometry.global_batch());
  check_same_data(data, comm);
  const ResidentPeak resident = count_memory(place.device);
  const auto model =
      make_mlp(shape_of(options, *data.train), faults.weight_seed(options.seed), place.device);
  if (!options.init.empty()) {
    load_weights(options.init, model->parameters());
  }
  const auto parameters = faults.parameters(model->parameters());
  dist::DataParallel data_parallel(parameters, comm,
                                   faults.synchronisation(options.data_parallel(), parameters));
  const auto loss = make_loss(options.loss);
  const auto optimizer = make_optimizer(options, data_parallel.parameters());
  dist::DistributedSampler sampler(data.train->size(), geometry, options.seed, options.shuffle,
                                   dist::parse_uneven(options.uneven));
  const RunInfo info = describe_run(options, ranks, data, data_parallel, sampler, place);
  nn::Module& trained = faults.around(*model, options.accum, info.steps);
  const std::filesystem::path directory = agree_on_directory(options, comm);
  std::optional<MetricsFile> metrics = open_metrics(options, comm, directory);
  print_first_screen(console, info);
  show_ring(console, options, place);
  RunResult result = run_steps(info,
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
                                .prefetch = info.prefetches ? Prefetch::on : Prefetch::off,
                                .replay = options.replay},
                               *data.test, {console, metrics ? &*metrics : nullptr});
  compare_ranks(result, data_parallel);
  result.choices = Context::current().choices();
  result.memory = largest_of_ranks(
      measure_memory(data_parallel, *optimizer, parameters, data, resident, place.device), comm);
  if (comm.rank() == 0) {
    write_results(console, info, result, directory, data_parallel.parameters());
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
