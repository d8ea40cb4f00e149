#include "apps/training/training.h"

#include "apps/doctor/doctor.h"
#include "apps/report/graph.h"
#include "apps/training/checkpointing.h"
#include "apps/training/inject.h"
#include "apps/training/link_choice.h"
#include "apps/training/run_files.h"
#include "apps/training/run_progress.h"
#include "apps/training/setup.h"
#include "apps/training/shrinking.h"
#include "apps/training/text.h"
#include "dist/elastic/catch_up.h"
#include "dist/hooks/finite_check.h"
#include "dist/hooks/reduce_check.h"
#include "dist/launch/stop_signals.h"
#include "dist/planning/bucket_tuner.h"
#include "dist/planning/link_times.h"
#include "dist/sharding/sharded_updates.h"

namespace brigade::apps {
namespace {

/// What a rank keeps when others are lost (--on-failure shrink).
struct Kept {
  Runtime& runtime;
  const data::DataSplits& data;
  FaultInjector& faults;
  nn::Module& model;
  std::vector<autograd::Variable> parameters;
  optim::Optimizer& optimizer;
  const ResidentPeak& resident;
  std::int64_t steps_done = 0;
};

std::string graph_of_one_sample(const TrainerParts& parts) {
  const data::Batch batch =
      data::load_batch(parts.data, std::vector<std::int64_t>{0}, parts.device);
  const autograd::Variable prediction = parts.model.forward(autograd::Variable(batch.inputs));
  return graph_of(parts.loss(prediction, batch.targets), parts.data_parallel);
}

dist::DataParallelOptions synchronisation(const Options& options, Kept& kept) {
  dist::DataParallelOptions sync =
      kept.faults.synchronisation(options.data_parallel(), kept.parameters);
  sync.hook = options.shard_optimizer ? dist::shard(kept.optimizer) : sync.hook;
  return sync;
}

/// Everything else in this file prepares this, or looks at what came of it.
RunResult train(const RunInfo& info, const TrainerParts& parts, const data::Dataset& test_data,
                const RunOutputs& outputs, dist::Checkpoints* checkpoints,
                std::int64_t& steps_done) {
  Trainer trainer(parts);
  RunProgress progress(info, parts, trainer, test_data, outputs);
  std::optional<dist::BucketTuner> tuner;
  if (info.options.choose_buckets && !(checkpoints != nullptr && checkpoints->took_plan())) {
    tuner.emplace(parts.data_parallel);
  }
  for (std::int64_t step = info.first_step; step < info.steps; ++step) {
    trainer.begin_step(step);
    parts.optimizer.zero_grad(info.options.grad_memory());
    for (const MicroBatch& micro : trainer.micro_batches()) {  // --accum of them
      const autograd::Variable loss = trainer.forward(micro);
      trainer.backward(loss, micro);  // buckets travel while this computes
    }
    trainer.update();  // optimizer.step(), unless buckets are updated as they arrive
    steps_done = step + 1;
    trainer.end_step();
    progress.after_step(step);
    const bool last = steps_done == info.steps;  // the results follow
    if (const auto choice = tuner && !last ? tuner->after_step() : std::nullopt) {
      progress.buckets_chosen(*choice, steps_done);
    }
    if (checkpoints != nullptr && !last) {
      checkpoints->after_step();
    }
  }
  RunResult result = progress.finish();
  result.graph = info.options.graph.empty() ? "" : graph_of_one_sample(parts);
  return result;
}

/// Whether a step waits a tenth of its time or more, mostly not for a rank that computes longer.
/// Links that are emulated are all alike, and --check-reduce takes every collective for a sum.
bool should_compare_links(const Options& options, const TimingSummary& timing) {
  const std::optional<Straggler>& slow = timing.straggler;
  const bool computes = slow && slow->reason == Straggler::Reason::compute;
  const double least =
      std::max(timing.step / 10.0, computes ? 2.0 * (slow->ms - slow->others) : 0.0);
  const bool real = !options.emulated_link && !options.choose_link && !options.check_reduce;
  return timing.communicates && timing.median.exposed > least && real;
}

/// After the last step nobody needs the gradients: their memory is all-reduced. Collective.
void add_network(RunResult& result, const Options& options, const dist::RankInfo& ranks,
                 const dist::GradAverager& averager) {
  if (averager.communicator().size() == 1) {
    return;
  }
  const auto largest = std::ranges::max_element(
      averager.buckets(), {}, [](const dist::Bucket& bucket) { return bucket.grads.numel(); });
  const dist::LinkTimes link = dist::measure_link(averager.communicator(), largest->grads);
  if (result.profile) {
    result.profile->all_reduce = link.points();
    result.profile->head_start = link.head_start_ms();
  }
  if (should_compare_links(options, result.timing)) {
    const auto slow = find_slow_link(ranks, largest->grads.device(), averager.communicator());
    result.timing.straggler = slow ? slow : result.timing.straggler;
  }
}

/// From kept.steps_done to the end, with the ranks that there are now.
void train_together(Options& options, const dist::RankInfo& ranks, Kept& kept) {
  const Console console = make_console(options, ranks);
  Runtime& runtime = kept.runtime;
  const dist::TrainingState state = dist::state_of(kept.parameters, kept.optimizer);
  if (runtime.lost > 0) {
    kept.steps_done = dist::catch_up(kept.steps_done, state, *runtime.comm);
  }
  kept.faults.on_the_wire(*runtime.comm, runtime.device);
  const auto finite_check =
      options.check_finite ? std::make_unique<dist::FiniteCheck>(*runtime.comm, kept.parameters)
                           : nullptr;
  const auto reduce_check = make_reduce_check(options, runtime);
  dist::Watch watch(*runtime.comm, watch_options(options, runtime));
  dist::GradAverager data_parallel(kept.parameters, *runtime.comm,
                                   synchronisation(options, kept));  // compares the ranks
  const data::BatchGeometry geometry = geometry_of(options, ranks, runtime.lost);
  data::DistributedSampler sampler(kept.data.train->size(), geometry, options.seed, options.shuffle,
                                   data::parse_uneven(options.uneven));

  RunFiles files(options, *runtime.comm);
  watch.set_report(files.directory() / kStall);
  const auto checkpoints =
      open_checkpoints(options, runtime, files.directory(), kept.data,
                       {.state = state, .averager = data_parallel}, kept.steps_done);
  kept.steps_done = checkpoints ? checkpoints->step() : kept.steps_done;
  const RunInfo info =
      describe_run(options, ranks, kept.data, data_parallel, sampler, runtime, kept.steps_done);
  const TrainerParts parts{
      .model = kept.faults.around(kept.model, options.accum, info.steps),
      .loss = *make_loss(options.loss),
      .optimizer = kept.optimizer,
      .data_parallel = data_parallel,
      .sampler = sampler,
      .data = *kept.data.train,
      .device = runtime.device,
      .deferred_sync = options.deferred_sync() || geometry.accum > options.accum,
      .trace = trace_schedule(options, info.first_step, info.steps),
      .never_sync = options.no_all_reduce,
      .clip_norm = options.clip_norm,
      .schedule = schedule_of(options, info.steps),
      .in_flight = options.in_flight(),
      .sharded = options.shard_optimizer,
      .prefetch = info.prefetches ? data::Prefetch::on : data::Prefetch::off,
      .finite_check = finite_check.get(),
      .reduce_check = reduce_check.get(),
      .watch = &watch};
  options.out = files.directory();  // those who go on without others write there, too
  files.begin(options, info.first_step);
  print_beginning(console, info, runtime);
  RunResult result = train(info, parts, *kept.data.test, {console, files.metrics()},
                           checkpoints.get(), kept.steps_done);
  result.memory = largest_of_ranks(
      measure_memory(data_parallel, kept.optimizer, kept.parameters, kept.resident, result.tensors),
      *runtime.comm);
  add_network(result, options, ranks, data_parallel);
  files.write_results(console, info, result, data_parallel.parameters());
  runtime.comm->barrier();  // nobody ends the job while rank 0 still writes
  if (!result.weights.equal && !options.no_all_reduce) {
    data_parallel.verify_parameters_equal();  // throws, and names the parameter
  }
}

}  // namespace

int run_training(Options options, const dist::RankInfo& ranks) {
  const Console console = make_console(options, ranks);
  // From here on, not only while there are Checkpoints: without a handler a signal ends the job.
  auto signals = options.checkpoints() ? std::make_unique<dist::StopSignals>() : nullptr;
  set_threads(options, ranks);
  Runtime runtime = find_runtime(options, ranks, console);
  FaultInjector faults(options.inject, *runtime.comm);
  // train_together() has a watch of its own, because ranks that go on have another communicator.
  std::optional<dist::Watch> watch(std::in_place, *runtime.comm, watch_options(options, runtime));
  runtime.can_watch = watch->works();

  const data::DataSplits data =
      load_data(options, geometry_of(options, ranks, /*lost=*/0).global_batch());
  check_same_data(data, *runtime.comm);
  emulate_link(options, *data.train, runtime, console);
  if (options.model == "gpt") {
    runtime.comm->barrier();  // all ranks measure while the others do
    runtime.flops_per_s =
        product_rate(runtime.device, options.dtype == "bf16" ? DType::bf16 : DType::f32);
  }
  const ResidentPeak resident = count_memory(runtime.device);

  const auto model =
      make_model(options, *data.train, faults.weight_seed(options.seed), runtime.device);
  drop_other_elements(options.seed, ranks.rank);
  const auto parameters = faults.parameters(model->parameters());
  const auto optimizer = make_optimizer(options, autograd::trainable(parameters));
  Kept kept{.runtime = runtime,
            .data = data,
            .faults = faults,
            .model = *model,
            .parameters = parameters,
            .optimizer = *optimizer,
            .resident = resident};
  runtime.comm->barrier();  // nobody leaves while another rank still prepares
  watch.reset();
  return train_and_shrink(options, ranks, runtime, [&](const dist::RankInfo& present) {
    train_together(options, present, kept);
    signals.reset();
    if (options.sample > 0) {
      if (present.rank == 0) {
        print_sample(options, dynamic_cast<nn::GPT&>(*model), make_console(options, present));
      }
      runtime.comm->barrier();  // nobody ends the job meanwhile
    }
    return 0;
  });
}

}  // namespace brigade::apps
