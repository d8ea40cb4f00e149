#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/io/checkpoint_store.h"
#include "dist/checkpoint/snapshot_writer.h"
#include "dist/ddp/data_parallel.h"
#include "dist/launch/stop_signals.h"

namespace brigade::dist {

struct CheckpointOptions {
  std::int64_t every = 0;  ///< steps from one checkpoint to the next; 0: not by steps
  double minutes = 0.0;    ///< likewise in minutes, by rank 0's clock
  std::size_t keep = 2;    ///< older ones are removed; 0: none
  /// Where to look for a checkpoint to continue from; empty: in the directory that is written to.
  std::filesystem::path resume_from = {};
  /// That of this step only, UsageError if there is none; by default the newest that is whole.
  std::optional<std::int64_t> resume_step = {};
  bool resume = true;
  /// Steps done by a training that goes on from memory (dist/elastic/); without `resume`.
  std::int64_t steps_done = 0;
  /// Lines that a run must have in common with the one it continues, such as "seed 1".
  std::vector<std::string> run = {};
};

/// What training changes, the same on all ranks. Those call the functions at the same places.
struct TrainingState {
  std::vector<autograd::Variable> parameters;  ///< of the model, frozen ones too
  std::function<NamedTensors()> optimizer_state;
  std::function<void(const NamedTensors&)> load_optimizer;
};

/// For optim::Optimizer, which must outlive the result.
template <class Optimizer>
TrainingState state_of(const std::vector<autograd::Variable>& parameters, Optimizer& optimizer) {
  return {
      .parameters = parameters,
      .optimizer_state = [&optimizer] { return optimizer.state(); },
      .load_optimizer = [&optimizer](const NamedTensors& state) { optimizer.load_state(state); }};
}

/// Overwrites every rank's state with that of rank `root`: on each rank all of it or, if the root
/// is gone midway, nothing. Collective.
void broadcast_state(const TrainingState& state, Communicator& comm, int root);

/// What a training consists of.
struct CheckpointParts {
  TrainingState state;
  GradAverager& averager;
  /// Batches that the loader has given out; empty: one per step.
  std::function<std::int64_t()> batches = {};
};

/// Writes a training's state as it goes on, and continues from it, to the bit:
///
///   dist::Checkpoints checkpoints("runs/mine", ddp, sgd, loader, {.every = 100});
///   for (int epoch ...)
///     for (... : loader.epoch(epoch)) { ...; sgd.step(); checkpoints.after_step(); }
///
/// Construction looks for the newest checkpoint and takes over its weights, optimizer state,
/// position in the data, buckets, the hook's error feedback and the place in the stream of
/// dropouts. One that is damaged is refused in a line on stderr, and the one before it is used.
/// Without any the training begins at the beginning.
///
/// Another number of ranks continues as well, if it has the same global batch: the bits then differ
/// as sums in another order do. SIGUSR1 on any rank asks for a checkpoint; SIGTERM or SIGINT for a
/// checkpoint and the end (Interrupted).
///
/// save() copies the state and returns; a thread writes the copy while training goes on. Rank 0
/// writes what is equal on all ranks. Only with a hook that keeps error feedback, or with dropout,
/// do the others write a file each, and the directory must be one that all hosts share.
class Checkpoints {
 public:
  /// Collective, between two steps. UsageError: the checkpoint is of another network, optimizer or
  /// run. `directory` is made when the first checkpoint is written.
  Checkpoints(const std::filesystem::path& directory, CheckpointParts parts,
              CheckpointOptions options);
  /// `loader`: a data::Loader of the same global batch as before (UsageError), or anything with
  /// position(), start_at() and global_batch(). It, `ddp` and `optimizer` must outlive this.
  template <class Module, class Optimizer, class Loader>
  Checkpoints(const std::filesystem::path& directory, DataParallel<Module>& ddp,
              Optimizer& optimizer, Loader& loader, const CheckpointOptions& options = {})
      : Checkpoints(directory, with_loader(ddp, optimizer, loader),
                    with_batch(options, loader.global_batch())) {
    loader.start_at(batches_);
  }
  /// Steps done, by this run and those that it continues.
  std::int64_t step() const { return step_; }
  /// Whether the buckets are those of the run that this one continues.
  bool took_plan() const { return took_plan_; }

  /// A step is done. Writes a checkpoint if one is due or was asked for. Interrupted if a signal
  /// has asked for the end. Collective.
  void after_step();

  /// Writes a checkpoint now. Waits for the one before, if that is still being written; tells on
  /// stderr if that has failed, and training goes on. `last`: writes it on this thread, because
  /// nothing is computed beside it. Collective.
  void save(bool last = false);

 private:
  template <class Module, class Optimizer, class Loader>
  static CheckpointParts with_loader(DataParallel<Module>& ddp, Optimizer& optimizer,
                                     const Loader& loader) {
    return {.state = state_of(ddp.module().parameters(), optimizer),
            .averager = ddp.averager(),
            .batches = [&loader] { return loader.position(); }};
  }
  static CheckpointOptions with_batch(CheckpointOptions options, std::int64_t global_batch);

  void resume();
  void check_none_newer() const;
  std::string newest_good() const;
  void take_plan(const CheckpointInfo& info);
  void load_shared(const CheckpointInfo& info);
  void load_own(const CheckpointInfo& info);
  NamedTensors own_state() const;
  SignalRequest agreed_request();
  void say(const std::string& text) const;

  CheckpointParts parts_;
  CheckpointOptions options_;
  Communicator& comm_;
  CheckpointStore store_;
  CheckpointStore source_;
  std::optional<StopSignals> signals_;
  bool took_plan_ = false;
  std::int64_t step_ = 0;
  std::int64_t batches_ = 0;  // that the run before has used
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  SnapshotWriter writer_;  // its end waits until the last checkpoint is written
};

}  // namespace brigade::dist
