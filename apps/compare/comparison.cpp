#include "apps/compare/comparison.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <thread>

#include "apps/metrics/memory_use.h"
#include "apps/training/trainer.h"
#include "core/error.h"
#include "core/runtime/context.h"
#include "dist/comm/single_process.h"
#include "nn/weights.h"

namespace brigade::apps {

namespace {

constexpr const char* kIdeal = "no communication";

/// One mode with everything that trains in it.
class Contestant {
 public:
  Contestant(const Options& options, const data::DataSplits& data, Device device,
             dist::Communicator& comm)
      : options_(options),
        comm_(comm),
        model_(make_mlp(shape_of(options, *data.train), options.seed, device)),
        loss_(make_loss(options.loss)) {
    if (!options.init.empty()) {
      nn::load(*model_, options.init);
    }
    data_parallel_ =
        std::make_unique<dist::GradAverager>(model_->parameters(), comm, options.data_parallel());
    optimizer_ = make_optimizer(options, data_parallel_->parameters());
    const data::BatchGeometry geometry{
        .batch = options.batch, .accum = options.accum, .ranks = comm.size(), .rank = comm.rank()};
    sampler_ = std::make_unique<data::DistributedSampler>(data.train->size(), geometry,
                                                          options.seed, options.shuffle,
                                                          data::parse_uneven(options.uneven));
    const std::int64_t recorded = std::min(options.trace_steps, options.steps - 1);
    trainer_ = std::make_unique<Trainer>(TrainerParts{
        .model = *model_,
        .loss = *loss_,
        .optimizer = *optimizer_,
        .data_parallel = *data_parallel_,
        .sampler = *sampler_,
        .data = *data.train,
        .device = device,
        .deferred_sync = options.deferred_sync(),
        .overlaps = options.overlaps(),
        .trace = {.skip = options.rounds * options.steps - recorded, .steps = recorded},
        .clip_norm = options.clip_norm});
  }

  /// The next steps. The first of a turn is not timed: it finds another mode's data in the caches.
  void take_turn(std::int64_t steps) {
    trainer_->step(done_++, Trainer::Timed::no);
    // Not counted either: the very first one may still have other buckets (dist/ddp/bucket_rebuilder.h).
    const dist::Traffic before = comm_.traffic();
    for (std::int64_t i = 1; i < steps; ++i) {
      trainer_->step(done_++, Trainer::Timed::yes);
    }
    const auto counted = static_cast<double>(steps - 1);
    const dist::Traffic traffic = comm_.traffic() - before;
    collectives_per_step_ = static_cast<double>(traffic.collectives) / counted;
    bytes_per_step_ = static_cast<double>(traffic.bytes_reduced) / counted;
    bytes_sent_per_step_ = static_cast<double>(traffic.bytes_sent) / counted;
    trainer_->take_losses();
  }

  std::vector<float> weights() const { return autograd::values_of(model_->parameters()); }

  std::uint64_t shared_bytes() const { return shared_gradient_bytes(*data_parallel_); }
  std::uint64_t hash() const { return dist::hash_parameters(model_->parameters()); }

  /// `world`: all ranks, also for a contestant that trains alone.
  ModeResult result(const std::string& name, dist::Communicator& world) const {
    ModeResult result;
    result.mode = name;
    result.timing = summarize(trainer_->history(), 0, world);
    result.collectives_per_step = collectives_per_step_;
    result.bytes_per_step = bytes_per_step_;
    result.bytes_sent_per_step = bytes_sent_per_step_;
    return result;
  }

  const Trainer& trainer() const { return *trainer_; }
  std::map<std::string, std::string> contents() const { return bucket_contents(*data_parallel_); }
  const Options& options() const { return options_; }

 private:
  Options options_;
  dist::Communicator& comm_;
  std::unique_ptr<nn::Sequential> model_;
  nn::Loss* loss_;
  std::unique_ptr<dist::GradAverager> data_parallel_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<data::DistributedSampler> sampler_;
  std::unique_ptr<Trainer> trainer_;
  std::int64_t done_ = 0;
  double collectives_per_step_ = 0.0;
  double bytes_per_step_ = 0.0;
  double bytes_sent_per_step_ = 0.0;
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
  while (!work.done().done()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  comm.wait(work, device);
}

class Race {
 public:
  Race(const Options& options, const dist::RankInfo& ranks, const Runtime& place,
       const data::DataSplits& data)
      : options_(options), ranks_(ranks), place_(place), data_(data), alone_(place.device) {}

  Comparison run() {
    make_contestants();
    for (std::int64_t round = 0; round < options_.rounds; ++round) {
      for (std::size_t turn = 0; turn <= contestants_.size(); ++turn) {
        const std::size_t who =
            (turn + static_cast<std::size_t>(round)) % (contestants_.size() + 1);
        Contestant& next = who < contestants_.size() ? *contestants_[who] : *ideal_;
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
  dist::Communicator& world() const { return *place_.comm; }

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

  void make_contestants() {
    for (const std::string& mode : options_.modes) {
      contestants_.push_back(
          std::make_unique<Contestant>(options_of(mode), data_, place_.device, world()));
    }
    // Every rank by itself on batches as large: its buckets become ready, and no bytes travel.
    ideal_ = std::make_unique<Contestant>(options_alone("overlap"), data_, place_.device, alone_);
    if (world().rank() == 0) {
      one_ = std::make_unique<Contestant>(options_alone("overlap"), data_, place_.device, alone_);
    }
  }

  /// Compares the ranks with each other, the modes with the first, and the first with one rank that
  /// has trained on the joined batches.
  void check_weights() {
    comparison_.checked_steps = options_.steps;
    const std::vector<float> first = contestants_.front()->weights();
    const std::vector<float> one_rank = train_as_one_rank();
    for (const std::unique_ptr<Contestant>& contestant : contestants_) {
      const std::vector<std::uint64_t> hashes =
          dist::all_gather_values(world(), contestant->hash());
      ModeResult checked;
      checked.hash = hashes.front();
      checked.ranks_equal =
          std::count(hashes.begin(), hashes.end(), hashes.front()) == world().size();
      const std::vector<float> weights = contestant->weights();
      checked.against_first = relative_difference(weights, first);
      checked.against_one_rank = relative_difference(weights, one_rank);
      const bool good = passes(checked, rounding_tolerance(options_));
      const std::vector<int> all_good = dist::all_gather_values(world(), good ? 1 : 0);
      comparison_.equal = comparison_.equal && std::count(all_good.begin(), all_good.end(), 0) == 0;
      comparison_.modes.push_back(checked);
    }
  }

  std::vector<float> train_as_one_rank() {
    Options options = options_alone("flat");
    options.batch *= world().size();
    dist::SingleProcessCommunicator single(place_.device);
    Contestant reference(options, data_, place_.device, single);
    reference.take_turn(options_.steps);
    return reference.weights();
  }

  /// Rank 0 by itself has a turn, too.
  void take_turn_alone() {
    if (one_) {
      one_->take_turn(options_.steps);
    }
    meet_asleep(world(), place_.device);
  }

  Comparison collect() {
    for (std::size_t i = 0; i < contestants_.size(); ++i) {
      ModeResult checked = std::move(comparison_.modes[i]);
      ModeResult& result = comparison_.modes[i] =
          contestants_[i]->result(options_.modes[i], world());
      result.hash = checked.hash;
      result.ranks_equal = checked.ranks_equal;
      result.against_first = checked.against_first;
      result.against_one_rank = checked.against_one_rank;
      result.beside = beside_comm_of(*contestants_[i], result.timing.slowest_rank);
      result.trace =
          trace_of(*contestants_[i], concat(options_.modes[i], ", ", world().size(), " ranks"));
    }
    comparison_.ideal = ideal_->result(kIdeal, world());
    comparison_.ideal.trace = trace_of(*ideal_, concat(kIdeal, ", rank 0 by itself"));
    // One rank's all-reduces only hand a tensor to another thread and back: nothing to show.
    for (RankTrace& rank : comparison_.ideal.trace.ranks) {
      for (StepTrace& step : rank.steps) {
        step.spans.collectives.clear();
        step.spans.labels.clear();
        step.spans.waits.clear();
      }
    }
    // It counts its own samples only.
    comparison_.ideal.timing.samples_per_second *= world().size();
    comparison_.timed_steps = static_cast<std::int64_t>(comparison_.ideal.timing.measured_steps);
    comparison_.peak_memory_bytes = Context::current().memory_stats(place_.device).peak_in_use;
    for (const auto& contestant : contestants_) {
      comparison_.peak_memory_bytes += contestant->shared_bytes();
    }
    comparison_.alone_samples_per_second =
        one_ ? one_->result("alone", alone_).timing.samples_per_second : 0.0;
    return std::move(comparison_);
  }

  /// Each rank compares its own steps: with those of another one it would compare machines.
  BesideComm beside_comm_of(const Contestant& contestant, int rank) const {
    const BesideComm mine =
        beside_comm(contestant.trainer().recorder().steps(), ideal_->trainer().recorder().steps());
    return dist::all_gather_values(world(), mine)[static_cast<std::size_t>(rank)];
  }

  RunTrace trace_of(const Contestant& contestant, const std::string& title) const {
    return {
        .title = title,
        .device = place_.device.is_cuda() ? gpu_identity(place_.device.index).name : "cpu",
        .comm = world().description(),
        .caption = concat(shape_of(options_, *data_.train).description(), ", batch ",
                          options_.batch, " per rank",
                          options_.accum > 1 ? concat(", ", options_.accum, " micro-batches") : ""),
        .contents = contestant.contents(),
        .ranks = contestant.trainer().recorder().gather(ranks_.host)};
  }

  const Options& options_;
  const dist::RankInfo& ranks_;
  const Runtime& place_;
  const data::DataSplits& data_;
  dist::SingleProcessCommunicator alone_;
  std::vector<std::unique_ptr<Contestant>> contestants_;
  std::unique_ptr<Contestant> ideal_;
  std::unique_ptr<Contestant> one_;  // on rank 0
  Comparison comparison_;
};

}  // namespace

double rounding_tolerance(const Options& options) {
  if (options.comm_hook != "none") {
    return std::numeric_limits<double>::infinity();
  }
  // A sum that differs in its last bit may be rounded to the neighbour of what it was, 2⁻⁸ away.
  const bool rounds = options.dtype == "bf16" || options.tf32;
  return options.optimizer == "sgd" && !rounds ? 1e-6 : 1e-2;
}

bool passes(const ModeResult& checked, double tolerance) {
  return checked.ranks_equal && checked.against_first <= tolerance &&
         checked.against_one_rank <= tolerance;
}

const ModeResult* Comparison::find(const std::string& mode) const {
  const auto found = std::find_if(modes.begin(), modes.end(),
                                  [&mode](const ModeResult& one) { return one.mode == mode; });
  return found == modes.end() ? nullptr : &*found;
}

Comparison compare_modes(const Options& options, const dist::RankInfo& ranks, const Runtime& place,
                         const data::DataSplits& data) {
  return Race(options, ranks, place, data).run();
}

}  // namespace brigade::apps
