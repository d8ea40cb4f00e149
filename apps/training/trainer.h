#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "apps/metrics/step_metrics.h"
#include "apps/metrics/step_recorder.h"
#include "apps/metrics/timing_summary.h"
#include "dist/ddp/grad_averager.h"
#include "dist/hooks/finite_check.h"
#include "dist/overlap/in_flight_updates.h"
#include "nn/data/batch_loader.h"
#include "nn/data/dataset.h"
#include "nn/data/sampler.h"
#include "nn/loss.h"
#include "nn/module.h"
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
  bool overlaps = true;        ///< all-reduces run during backward; for the names in a trace
  TraceSchedule trace = {};
  bool never_sync = false;  ///< no micro-batch synchronises; each rank steps on its own gradients
  double clip_norm = 0.0;   ///< longest gradient of a step; 0: any
  /// Buckets are updated as their gradients arrive, instead of by a step after backward.
  std::optional<dist::UpdateDeadline> in_flight = {};
  data::Prefetch prefetch = data::Prefetch::off;
  dist::FiniteCheck* finite_check = nullptr;  ///< told each step's number; none: no check
};

/// Executes optimizer steps, one after the other, and keeps what they cost.
///
/// Gradients are averaged over all samples of the global batch: a micro-batch of n samples enters
/// backward with the seed n · ranks / G, where G is the step's number of samples on all ranks and
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
  /// is done. Collective.
  void step(std::int64_t step, Timed timed = Timed::yes);
  /// Something else comes before the next step, a test say, and is no part of it.
  void pause() { clock_.pause(); }

  /// Mean loss over the global batch for each step since the last call. Collective. Error when one
  /// is not finite.
  std::vector<double> take_losses();

  const TimingHistory& history() const { return history_; }
  const StepRecorder& recorder() const { return recorder_; }

 private:
  const std::vector<data::Batch>& load(std::int64_t step);
  bool crosses_steps() const;
  void start_together();
  autograd::Variable forward(const data::Batch& batch);
  void run_micro_batches(const std::vector<data::Batch>& batches, double samples);
  void run_micro_batch(const data::Batch& batch, double seed, bool synchronizes);
  void update();
  void add_losses(const std::vector<data::Batch>& batches);
  void send_losses();
  void collect_losses();  // if any were sent

  TrainerParts parts_;
  dist::Communicator& comm_;
  data::BatchLoader loader_;
  StepClock clock_;
  StepRecorder recorder_;
  std::optional<dist::InFlightUpdates> in_flight_;
  TimingHistory history_;
  std::int64_t next_step_ = 0;

  std::vector<Tensor> micro_losses_;  // of the current step
  // Summed losses stay on the device until somebody asks or a window is full. They are then sent to
  // the host, which looks at them a step later and so need not wait for them.
  Tensor device_losses_;  // [kLossWindow]
  Tensor host_losses_;    // [kLossWindow]; pinned beside a GPU
  std::int64_t losses_on_device_ = 0;
  std::int64_t losses_sent_ = 0;  // of the steps before those on the device
  Event losses_arrive_;
  std::vector<double> losses_;          // per step since take_losses(): mean over all ranks
  std::vector<double> global_samples_;  // likewise
};

}  // namespace brigade::apps
