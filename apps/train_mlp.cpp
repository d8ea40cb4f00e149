// train_mlp: trains a multilayer perceptron, data parallel over the ranks that mpirun starts.
#include "apps/report/report.h"
#include "apps/training/checkpointing.h"
#include "apps/training/inject.h"
#include "apps/training/link_choice.h"
#include "apps/training/program.h"
#include "apps/training/run_files.h"
#include "apps/training/run_progress.h"
#include "apps/training/setup.h"
#include "dist/hooks/finite_check.h"

namespace brigade::apps {

namespace {

/// Everything else in this file prepares this, or looks at what came of it.
RunResult train(const RunInfo& info, const TrainerParts& parts, const data::Dataset& test_data,
                const RunOutputs& outputs, dist::Checkpoints* checkpoints) {
  Trainer trainer(parts);
  RunProgress progress(info, parts, trainer, test_data, outputs);
  for (std::int64_t step = info.first_step; step < info.steps; ++step) {
    trainer.begin_step(step);
    parts.optimizer.zero_grad();
    for (const MicroBatch& micro : trainer.micro_batches()) {  // --accum of them
      const autograd::Variable loss = trainer.forward(micro);
      trainer.backward(loss, micro);  // buckets travel while this computes
    }
    trainer.update();  // optimizer.step(), unless buckets are updated as they arrive
    trainer.end_step();
    progress.after_step(step);
    if (checkpoints != nullptr && step + 1 < info.steps) {  // the results follow the last step
      checkpoints->after_step();
    }
  }
  return progress.finish();
}

int run(Options options, const dist::RankInfo& ranks) {
  const Console console(ranks.rank == 0, options.json ? Console::Target::err : Console::Target::out,
                        options.color);
  set_threads(options, ranks);
  Runtime place = find_runtime(options, ranks, console);
  FaultInjector faults(options.inject, *place.comm);

  const data::BatchGeometry geometry{
      .batch = options.batch, .accum = options.accum, .ranks = ranks.size, .rank = ranks.rank};
  const data::DataSplits data = load_data(options, geometry.global_batch());
  check_same_data(data, *place.comm);
  emulate_link(options, *data.train, place, console);
  const ResidentPeak resident = count_memory(place.device);

  const auto model =
      make_model(options, *data.train, faults.weight_seed(options.seed), place.device);
  const auto parameters = faults.parameters(model->parameters());
  dist::DataParallelOptions sync = faults.synchronisation(options.data_parallel(), parameters);
  const auto finite_check = add_finite_check(options, sync);
  dist::GradAverager data_parallel(parameters, *place.comm, sync);  // verifies that ranks are alike
  watch_naive(options, finite_check.get(), data_parallel);
  const auto loss = make_loss(options.loss);
  const auto optimizer = make_optimizer(options, data_parallel.parameters());
  data::DistributedSampler sampler(data.train->size(), geometry, options.seed, options.shuffle,
                                   data::parse_uneven(options.uneven));

  RunFiles files(options, *place.comm);
  dist::Watch watch(*place.comm, watch_options(options, files.directory()));
  const auto checkpoints =
      open_checkpoints(options, files.directory(), data, *model, data_parallel, *optimizer);
  const RunInfo info = describe_run(options, ranks, data, data_parallel, sampler, place,
                                    checkpoints ? checkpoints->step() : 0);
  const TrainerParts parts{.model = faults.around(*model, options.accum, info.steps),
                           .loss = *loss,
                           .optimizer = *optimizer,
                           .data_parallel = data_parallel,
                           .sampler = sampler,
                           .data = *data.train,
                           .device = place.device,
                           .deferred_sync = options.deferred_sync(),
                           .overlaps = options.overlaps(),
                           .trace = trace_schedule(options, info.first_step, info.steps),
                           .never_sync = options.never_syncs(),
                           .clip_norm = options.clip_norm,
                           .in_flight = options.in_flight(),
                           .prefetch = info.prefetches ? data::Prefetch::on : data::Prefetch::off,
                           .finite_check = finite_check.get(),
                           .watch = &watch};
  files.begin(info.first_step);
  print_first_screen(console, info);

  RunResult result = train(info, parts, *data.test, {console, files.metrics()}, checkpoints.get());
  result.memory = largest_of_ranks(
      measure_memory(data_parallel, *optimizer, parameters, resident, result.tensors), *place.comm);
  files.write_results(console, info, result, data_parallel.parameters());
  place.comm->barrier();  // nobody ends the job while rank 0 still writes
  if (!result.params_equal && !options.never_syncs()) {
    data_parallel.verify_parameters_equal();  // throws, and names the parameter
  }
  return 0;
}

}  // namespace

}  // namespace brigade::apps

int main(int argc, char** argv) {
  return brigade::apps::run_program(argc, argv, brigade::apps::Program::train_mlp,
                                    brigade::apps::run);
}
