#include "apps/training/run_progress.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "apps/report/report.h"
#include "core/error.h"
#include "core/runtime/context.h"
#include "dist/comm/gather.h"
#include "dist/ddp/bucket.h"
#include "dist/ddp/replica_check.h"

namespace brigade::apps {

namespace {

/// Tests on small batches would take long and teach nothing; large ones must not be what needs most
/// memory. Where layers are about as wide as each other, half a batch of x, targets and two
/// activations takes as much beside training's batch as dy and dx do in a step.
std::int64_t test_batch(const RunInfo& info) {
  constexpr std::int64_t kSamples = 128;
  constexpr std::int64_t kNumbers = std::int64_t{1} << 16;  // of an activation
  return std::max((info.options.batch + 1) / 2, std::min(kSamples, kNumbers / info.shape.widest()));
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

RunProgress::RunProgress(const RunInfo& info, const TrainerParts& parts, Trainer& trainer,
                         const data::Dataset& test_data, const RunOutputs& outputs)
    : info_(info),
      parts_(parts),
      trainer_(trainer),
      test_data_(test_data),
      outputs_(outputs),
      traffic_before_(parts.data_parallel.communicator().traffic()),
      counted_from_(info.first_step),
      ready_times_(parts.data_parallel.parameters()) {
  result_.buckets = info.buckets;
  tell_contents();
}

void RunProgress::tell_contents() {
  if (parts_.watch != nullptr) {
    parts_.watch->set_contents(bucket_contents(result_.buckets));
  }
  if (parts_.reduce_check != nullptr) {
    parts_.reduce_check->set_contents(bucket_contents(result_.buckets));
  }
}

void RunProgress::after_step(std::int64_t step) {
  const bool first = step == info_.first_step;
  if (first) {
    follow_rebuild();
  }
  if (first && step + 1 < info_.steps) {  // counted are the steps whose buckets are the final ones
    traffic_before_ = parts_.data_parallel.communicator().traffic();
    counted_from_ = step + 1;
  }
  watch_gradients(step + 1 - info_.first_step);
  samples_ += trainer_.history().steps().back().samples;
  const std::int64_t done = step + 1;
  verify(done);
  const bool test = is_test_due(done);
  if (test || first || done % info_.log_every == 0) {
    report(done, test);
  }
}

RunResult RunProgress::finish() {
  dist::Communicator& comm = parts_.data_parallel.communicator();
  if (info_.first_step == info_.steps) {  // ranks were lost after the last step
    run_test(info_.steps);
  }
  result_.traffic = per_step(comm.traffic() - traffic_before_,
                             std::max<std::int64_t>(info_.steps - counted_from_, 1));
  result_.seconds = seconds_since(begin_);
  result_.samples_per_second_overall = samples_ / (result_.seconds - test_seconds_);
  result_.timing =
      summarize(trainer_.history(), static_cast<std::size_t>(info_.options.warmup), comm);
  record();
  if (ready_times_.backwards() > 0) {
    result_.profile = profile();
  }
  ready_times_.stop();
  result_.weights = hash_weights(parts_.data_parallel.parameters(), comm);
  return result_;
}

/// `done` steps of this run are done. The first ones are slow.
void RunProgress::watch_gradients(std::int64_t done) {
  constexpr std::size_t kEnough = 20;
  const std::int64_t warm = std::min(info_.options.warmup, (info_.steps - info_.first_step) / 4);
  if (done <= warm) {
    ready_times_.forget();
  } else if (ready_times_.backwards() >= kEnough) {
    ready_times_.stop();
  }
}

/// Times of the slowest rank. Rank 0 knows when gradients are ready, as a share of its backward.
Profile RunProgress::profile() const {
  const auto accum = static_cast<double>(info_.geometry.accum);
  const StepTimes& times = result_.timing.median;
  Profile profile{.model = info_.shape.description(),
                  .mode = info_.options.mode,
                  .comm = info_.comm,
                  .ranks = info_.ranks.size,
                  .batch = info_.options.batch,
                  .shares_core = info_.device == kCpu,
                  .compute = {.forward = times.forward / accum,
                              .backward = times.backward / accum,
                              .optimizer = times.optimizer,
                              .order = ready_times_.usual_order()},
                  .spread = result_.timing.spread};
  const double mine = median_times(times_of(trainer_.history().steps())).backward;
  for (dist::GradientReady& gradient : profile.compute.order) {
    const double share = mine > 0.0 ? std::min(gradient.ms * accum / mine, 1.0) : 1.0;
    gradient.ms = share * profile.compute.backward;
  }
  for (const autograd::Variable& parameter : parts_.data_parallel.parameters()) {
    const auto extents = parameter.shape().extents();
    profile.parameters.push_back({.name = parameter.name(),
                                  .bytes = dist::slice_bytes(parameter.data()),
                                  .shape = {extents.begin(), extents.end()}});
  }
  return profile;
}

void RunProgress::record() {
  const StepRecorder& recorder = trainer_.recorder();
  result_.recorded_steps = recorder.steps().size();
  result_.tensors = Context::current().memory_stats(info_.device);
  result_.operations = operation_times(recorder.steps());
  if (info_.options.trace) {
    result_.trace = {
        .title = fmt::format("{}, {}", info_.options.mode, plural(info_.ranks.size, "rank")),
        .device = info_.device_name,
        .comm = info_.comm,
        .caption =
            fmt::format("{}, batch {} per rank", info_.shape.description(), info_.options.batch),
        .contents = bucket_contents(result_.buckets),
        .ranks = recorder.gather(info_.ranks.host)};
  }
}

/// The first step may have ended with other buckets than it began with
/// (dist/ddp/bucket_rebuilder.h).
void RunProgress::follow_rebuild() {
  if (!parts_.data_parallel.rebuilt()) {
    return;
  }
  result_.buckets_rebuilt = true;
  describe_new_buckets();
  print_rebuilt_buckets(outputs_.console, info_.buckets, result_.buckets);
}

void RunProgress::buckets_chosen(const dist::BucketChoice& choice, std::int64_t done) {
  describe_new_buckets();
  print_chosen_buckets(outputs_.console, result_.buckets, choice, done);
  traffic_before_ = parts_.data_parallel.communicator().traffic();
  counted_from_ = done;
  trainer_.pause();
}

void RunProgress::describe_new_buckets() {
  result_.buckets = describe_buckets(parts_.data_parallel);
  tell_contents();
}

/// With --verify-every.
void RunProgress::verify(std::int64_t done) {
  const std::int64_t every = info_.options.verify_every;
  if (every == 0 || done % every != 0) {
    return;
  }
  try {
    parts_.data_parallel.verify_parameters_equal();
  } catch (const VerificationError& error) {
    throw VerificationError(fmt::format("after step {}: {}", done, error.what()));
  }
  trainer_.pause();
}

bool RunProgress::is_test_due(std::int64_t done) const {
  const std::int64_t every = info_.options.eval_every * info_.steps_per_epoch;
  return done == info_.steps || (every > 0 && done % every == 0);
}

void RunProgress::report(std::int64_t done, bool test) {
  const std::vector<double> losses = trainer_.take_losses();
  if (done == info_.first_step + 1) {
    result_.loss_first = losses.front();
  }
  result_.loss_last = losses.back();

  Progress progress;
  progress.step = done;
  progress.loss = losses.back();
  const TimingHistory& history = trainer_.history();
  const std::size_t window = std::min(losses.size(), history.steps().size());
  const std::span<const TimedStep> steps = history.steps().last(window);
  progress.times = median_times(times_of(steps));
  progress.samples_per_second = samples_per_second(steps, progress.times.step);
  progress.seconds = seconds_since(begin_);
  progress.eta_seconds = progress.seconds / static_cast<double>(done - info_.first_step) *
                         static_cast<double>(info_.steps - done);
  if (info_.options.no_all_reduce) {
    progress.difference = result_.difference = dist::largest_rank_difference(
        parts_.data_parallel.parameters(), parts_.data_parallel.communicator());
  }
  print_progress(outputs_.console, info_, progress);

  std::optional<Evaluation> evaluation;
  if (test) {
    evaluation = run_test(done);
  }
  if (outputs_.metrics != nullptr && !outputs_.metrics->write(info_, progress, evaluation)) {
    outputs_.console.warn("cannot write metrics.jsonl, is the disk full? Training goes on");
  }
}

Evaluation RunProgress::run_test(std::int64_t done) {
  const Clock::time_point begin = Clock::now();
  const Evaluation evaluation = evaluate(parts_.model, parts_.loss, test_data_, test_batch(info_),
                                         parts_.data_parallel.communicator(), info_.device);
  test_seconds_ += seconds_since(begin);
  if (!std::isfinite(evaluation.loss)) {
    throw Error(fmt::format(
        "test: expected a finite loss, got {:g} after step {}: training has diverged; lower --lr",
        evaluation.loss, done));
  }
  result_.test = evaluation;
  result_.best_accuracy = std::max(result_.best_accuracy, evaluation.accuracy.value_or(0.0));
  print_evaluation(outputs_.console, info_, done, evaluation);
  trainer_.pause();
  return evaluation;
}

}  // namespace brigade::apps
