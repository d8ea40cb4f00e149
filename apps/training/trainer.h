#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "apps/metrics/step_metrics.h"
#include "apps/metrics/step_recorder.h"
#include "apps/metrics/timing_summary.h"
#include "dist/ddp/grad_averager.h"
#include "dist/hooks/finite_check.h"
#include "dist/hooks/reduce_check.h"
#include "dist/overlap/in_flight_updates.h"
#include "dist/watch/watch.h"
#include "nn/data/batch_loader.h"
#include "nn/data/dataset.h"
#include "nn/data/sampler.h"
#include "nn/loss.h"
#include "nn/module.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"

namespace brigade::apps {

/// What a Trainer puts together. The references must outlive it.
struct TrainerParts {
  nn::Module& model;
  nn::Loss& loss;
  optim::Optimizer& optimizer;
  dist::GradAverager& data_parallel;
  data::DistributedSampler& sampler;
  const data::Dataset& data;
  Device device;
  bool deferred_sync = false;  ///< all micro-batches of a step but the last run inside no_sync()
  TraceSchedule trace = {};
  bool never_sync = false;  ///< no micro-batch synchronises; each rank steps on its own gradients
  double clip_norm = 0.0;   ///< longest gradient of a step; 0: any
  std::optional<optim::LrSchedule> schedule = {};
  /// Buckets are updated as their gradients arrive, instead of by a step after backward.
  std::optional<dist::UpdateDeadline> in_flight = {};
  bool sharded = false;  ///< the optimizer is: new weights travel under the next forward
  data::Prefetch prefetch = data::Prefetch::off;
  dist::FiniteCheck* finite_check = nullptr;  ///< told each step's number; none: no check
  dist::ReduceCheck* reduce_check = nullptr;  ///< likewise
  dist::Watch* watch = nullptr;               ///< likewise
};

/// One forward and backward of a step. Valid until the next step begins.
struct MicroBatch {
  const data::Batch& batch;
  double grad_scale;  ///< see Trainer
  bool synchronizes;  ///< its backward averages the gradients over the ranks
};

/// Executes optimizer steps, one after the other, and keeps what they cost.
///
/// Gradients are averaged over all samples of the global batch: a micro-batch of n samples enters
/// backward with the factor n · ranks / G, where G is the step's number of samples on all ranks and
/// the factor 1 / ranks is already in the gradients (GradState::grad_scale). For full batches that
/// is 1 / accum; for the last, smaller one it keeps the average exact. A rank with no samples for a
/// micro-batch mirrors the others' backward: they count on its collectives.
///
/// With never_sync, G is the number of this rank's samples: it descends the mean of its own.
class Trainer {
 public:
  explicit Trainer(const TrainerParts& parts);

  /// Whether a step counts in history().
  enum class Timed : bool { no, yes };

  /// Step number `step`, counted from 0 through all epochs; to be called in order. Returns when it
  /// is done: begin_step, zero_grad, forward and backward of every micro-batch, update, end_step.
  /// Collective.
  void step(std::int64_t step, Timed timed = Timed::yes);

  /// @name The parts of a step, for a program that shows them (training.cpp)
  /// @{
  /// Reads the batches, lets the ranks start together, starts the clock. Collective.
  void begin_step(std::int64_t step);
  std::vector<MicroBatch> micro_batches() const;
  /// The loss; undefined if this rank has no samples.
  autograd::Variable forward(const MicroBatch& micro);
  /// All-reduces start, and in most modes run, inside. A rank without samples takes part in them.
  void backward(const autograd::Variable& loss, const MicroBatch& micro);
  /// The optimizer's step; with in_flight it is made already.
  void update();
  void end_step(Timed timed = Timed::yes);
  /// @}

  /// Something else comes before the next step, a test say, and is no part of it.
  void pause() { clock_.pause(); }

  /// Mean loss over the global batch for each step since the last call. Collective. Error when one
  /// is not finite.
  std::vector<double> take_losses();

  const TimingHistory& history() const { return history_; }
  const StepRecorder& recorder() const { return recorder_; }

 private:
  bool crosses_steps() const;
  void start_together();
  void add_losses();
  void collect_losses();

  TrainerParts parts_;
  dist::Communicator& comm_;
  data::BatchLoader loader_;
  StepClock clock_;
  StepRecorder recorder_;
  std::optional<dist::InFlightUpdates> in_flight_;
  TimingHistory history_;
  std::int64_t next_step_ = 0;
  const std::vector<data::Batch>* batches_ = nullptr;  // the loader's, of the current step
  double samples_ = 0.0;                               // of the current step, on all ranks
  double load_ms_ = 0.0;                               // until its batches were there

  std::vector<Tensor> micro_losses_;    // of the current step
  std::vector<double> loss_sums_;       // of this rank, by step since collect_losses()
  std::vector<double> losses_;          // by step since take_losses(): mean over all ranks
  std::vector<double> global_samples_;  // likewise
};

}  // namespace brigade::apps
