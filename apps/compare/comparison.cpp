#include "apps/compare/comparison.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <thread>

#include "apps/metrics/figure.h"
#include "apps/training/setup.h"
#include "apps/training/trainer.h"
#include "core/error.h"
#include "dist/comm/gather.h"
#include "dist/comm/single_process.h"

namespace brigade::apps {

namespace {

constexpr const char* kIdeal = "no communication";

/// One mode with everything that trains in it.
class ModeRun {
 public:
  ModeRun(const Options& options, const data::DataSplits& data, Device device,
          dist::Communicator& comm)
      : comm_(comm),
        model_(make_model(options, *data.train, options.seed, device)),
        data_parallel_(model_->parameters(), comm, options.data_parallel()),
        optimizer_(make_optimizer(options, data_parallel_.parameters())),
        sampler_(data.train->size(),
                 {.batch = options.batch,
                  .accum = options.accum,
                  .ranks = comm.size(),
                  .rank = comm.rank()},
                 options.seed, options.shuffle, data::parse_uneven(options.uneven)),
        trainer_({.model = *model_,
                  .loss = *make_loss(options.loss),
                  .optimizer = *optimizer_,
                  .data_parallel = data_parallel_,
                  .sampler = sampler_,
                  .data = *data.train,
                  .device = device,
                  .deferred_sync = options.deferred_sync(),
                  .trace = last_steps(options),
                  .clip_norm = options.clip_norm}) {}

  /// The next steps. The first of a turn is not timed: it finds another mode's data in the caches.
  /// Its traffic does not count either: the very first step may have other buckets
  /// (dist/ddp/bucket_rebuilder.h).
  void take_turn(std::int64_t steps) {
    trainer_.step(done_++, Trainer::Timed::no);
    const dist::Traffic before = comm_.traffic();
    for (std::int64_t i = 1; i < steps; ++i) {
      trainer_.step(done_++, Trainer::Timed::yes);
    }
    result_.traffic = per_step(comm_.traffic() - before, steps - 1);
    trainer_.take_losses();
  }

  std::vector<float> weights() const { return autograd::values_of(model_->parameters()); }
  WeightsHash hash(dist::Communicator& world) const {
    return hash_weights(model_->parameters(), world);
  }

  /// What is known so far.
  ModeResult& result() { return result_; }

  /// The times and the last steps. `world`: all ranks, also for a run that trains alone. `trace`:
  /// what all modes' traces have in common. Collective.
  ModeResult finish(const std::string& mode, dist::Communicator& world, RunTrace trace,
                    const std::string& host) {
    result_.mode = mode;
    result_.timing = summarize(trainer_.history(), 0, world);
    trace.contents = bucket_contents(describe_buckets(data_parallel_));
    trace.ranks = trainer_.recorder().gather(host);
    result_.trace = std::move(trace);
    return std::move(result_);
  }

 private:
  static TraceSchedule last_steps(const Options& options) {
    const std::int64_t recorded = std::min(options.trace_steps, options.steps - 1);
    return {.skip = options.rounds * options.steps - recorded, .steps = recorded};
  }

  dist::Communicator& comm_;
  std::unique_ptr<nn::Module> model_;
  dist::GradAverager data_parallel_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  data::DistributedSampler sampler_;
  Trainer trainer_;
  std::int64_t done_ = 0;
  ModeResult result_;
};

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    size += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return size > 0.0 ? std::sqrt(difference / size) : std::sqrt(difference);
}

/// All ranks meet here, and those who come early sleep instead of polling: a core that polls would
/// slow down the rank that still computes.
void meet_asleep(dist::Communicator& comm, Device device) {
  if (device.is_cuda()) {
    comm.barrier();  // polls a host core, which a GPU rank has to spare
    return;
  }
  const dist::Work work = comm.all_reduce(Tensor::zeros({1}));
  while (!work.done_event().done()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  comm.wait(work);
}

class Race {
 public:
  Race(const RunInfo& info, const Runtime& runtime, const data::DataSplits& data)
      : info_(info),
        options_(info.options),
        runtime_(runtime),
        data_(data),
        alone_(runtime.device) {}

  Comparison run() {
    make_runs();
    for (std::int64_t round = 0; round < options_.rounds; ++round) {
      for (std::size_t turn = 0; turn <= runs_.size(); ++turn) {
        const std::size_t who = (turn + static_cast<std::size_t>(round)) % (runs_.size() + 1);
        ModeRun& next = who < runs_.size() ? *runs_[who] : *ideal_;
        world().barrier();
        next.take_turn(options_.steps);
      }
      take_turn_alone();
      if (round == 0) {
        check_weights();
      }
    }
    return collect();
  }

 private:
  dist::Communicator& world() const { return *runtime_.comm; }

  Options options_of(const std::string& mode) const {
    Options options = options_;
    options.mode = mode;
    return options;
  }

  /// For what compressed gradients are compared with: a rank by itself.
  Options options_alone(const std::string& mode) const {
    Options options = options_of(mode);
    options.comm_hook = "none";
    return options;
  }

  void make_runs() {
    for (const std::string& mode : options_.modes) {
      runs_.push_back(std::make_unique<ModeRun>(options_of(mode), data_, runtime_.device, world()));
    }
    // Every rank by itself on batches as large: its buckets become ready, and no bytes travel.
    ideal_ = std::make_unique<ModeRun>(options_alone("overlap"), data_, runtime_.device, alone_);
    if (world().rank() == 0) {
      one_ = std::make_unique<ModeRun>(options_alone("overlap"), data_, runtime_.device, alone_);
    }
  }

  /// Compares the ranks with each other, the modes with the first, and each with one rank that has
  /// trained on the joined batches.
  void check_weights() {
    const std::vector<float> first = runs_.front()->weights();
    const std::vector<float> one_rank = train_as_one_rank();
    for (const std::unique_ptr<ModeRun>& run : runs_) {
      ModeResult& result = run->result();
      result.weights = run->hash(world());
      result.against_first = relative_difference(run->weights(), first);
      result.against_one_rank = relative_difference(run->weights(), one_rank);
      const int good = passes(result, rounding_tolerance(options_)) ? 1 : 0;
      const std::vector<int> all_good = dist::all_gather_values(world(), good);
      comparison_.equal = comparison_.equal && std::count(all_good.begin(), all_good.end(), 0) == 0;
    }
  }

  std::vector<float> train_as_one_rank() {
    Options options = options_alone("flat");
    options.batch *= world().size();
    dist::SingleProcessCommunicator single(runtime_.device);
    ModeRun reference(options, data_, runtime_.device, single);
    reference.take_turn(options_.steps);
    return reference.weights();
  }

  /// Rank 0 by itself has a turn, too.
  void take_turn_alone() {
    if (one_) {
      one_->take_turn(options_.steps);
    }
    meet_asleep(world(), runtime_.device);
  }

  Comparison collect() {
    RunTrace trace{
        .title = {},
        .device = info_.device_name,
        .comm = info_.comm,
        .caption = fmt::format("{}, batch {} per rank, {}", info_.shape.description(),
                               options_.batch, plural(options_.accum, "micro-batch", "es")),
        .ranks = {}};
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const std::string& mode = options_.modes[i];
      trace.title = fmt::format("{}, {} ranks", mode, world().size());
      comparison_.modes.push_back(runs_[i]->finish(mode, world(), trace, info_.ranks.host));
    }
    trace.title = fmt::format("{}, rank 0 by itself", kIdeal);
    ModeResult& ideal = comparison_.ideal =
        ideal_->finish(kIdeal, world(), trace, info_.ranks.host);
    // One rank's all-reduces only hand a tensor to another thread and back: nothing to show.
    for (RankTrace& rank : ideal.trace.ranks) {
      for (StepTrace& step : rank.steps) {
        step.spans.collectives.clear();
        step.spans.labels.clear();
        step.spans.waits.clear();
      }
    }
    ideal.timing.samples_per_second *= world().size();  // it counts its own samples only
    comparison_.alone_samples_per_second =
        one_ ? one_->finish("alone", alone_, {}, info_.ranks.host).timing.samples_per_second : 0.0;
    return std::move(comparison_);
  }

  const RunInfo& info_;
  const Options& options_;
  const Runtime& runtime_;
  const data::DataSplits& data_;
  dist::SingleProcessCommunicator alone_;
  std::vector<std::unique_ptr<ModeRun>> runs_;
  std::unique_ptr<ModeRun> ideal_;
  std::unique_ptr<ModeRun> one_;  // on rank 0
  Comparison comparison_;
};

}  // namespace

double rounding_tolerance(const Options& options) {
  if (options.comm_hook != "none") {
    return std::numeric_limits<double>::infinity();
  }
  // A sum that differs in its last bit may be rounded to the neighbour of what it was, 2⁻⁸ away.
  const bool rounds = options.dtype == "bf16" || options.matmul_precision != "highest";
  return options.optimizer == "sgd" && !rounds ? 1e-6 : 1e-2;
}

bool passes(const ModeResult& checked, double tolerance) {
  return checked.weights.equal && checked.against_first <= tolerance &&
         checked.against_one_rank <= tolerance;
}

const ModeResult* Comparison::find(const std::string& mode) const {
  const auto found = std::find_if(modes.begin(), modes.end(),
                                  [&mode](const ModeResult& one) { return one.mode == mode; });
  return found == modes.end() ? nullptr : &*found;
}

Comparison compare_modes(const RunInfo& info, const Runtime& runtime,
                         const data::DataSplits& data) {
  return Race(info, runtime, data).run();
}

}  // namespace brigade::apps
