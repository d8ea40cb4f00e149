#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "autograd/engine.h"
#include "core/runtime/allocator.h"
#include "core/runtime/recording.h"
#include "core/runtime/stream.h"

namespace brigade::autograd {

/// Forward and backward of a training step whose shapes do not change, and what may follow them,
/// without building its graph again: the first time they run as they always do, the second time
/// what they enqueue is recorded, and from the third on only that is repeated. On the CPU that
/// saves the nodes and their order; on a GPU the step becomes one launch (a CUDA graph). Same
/// kernels on the same numbers, hence the same bits.
///
/// What was recorded is forgotten when a parameter gets other memory, is frozen, gets or loses a
/// hook or listener, or has a listener that does something else now (GradListener::generation). Not
/// seen, and left out by a replay: TraceScopes, hooks of what is no parameter, a forward that
/// computes something else each time. On a GPU listeners hear nothing of a replay; their
/// collectives are part of the graph, so all ranks must replay the same steps.
///
/// Must be destroyed before the listeners (dist::DataParallel, its scopes), communicators and the
/// optimizer of what it has recorded. After an exception in backward the listeners have heard of it
/// (on_backward_abort); a step that failed while it was recorded is rehearsed again, if they allow
/// another backward; an optimizer that was part of it may have counted it.
class Replay {
 public:
  /// What must be as it was for a recording to fit, beside the parameters' own state: the memory of
  /// inputs and targets, and what goes into kernels as a number.
  struct Key {
    const std::byte* inputs = nullptr;
    const std::byte* targets = nullptr;
    std::int64_t samples = 0;
    double seed = 1.0;         ///< BackwardOptions::seed
    bool synchronizes = true;  ///< not inside no_sync()
    bool operator==(const Key&) const = default;
  };

  /// Neither part is called in a replay.
  struct Work {
    std::function<Variable()> forward;       ///< returns the loss
    std::function<void()> update = nullptr;  ///< may be empty. Follows backward at once
  };

  struct Outcome {
    Tensor loss;  ///< in memory that is good until the next step() with this key
    bool replayed = false;
    Event forward_done, backward_done;  ///< Stream::record_time; good as long
  };

  static constexpr std::size_t kMostKeys = 256;

  /// `parameters`: all that backward reaches, on `device`.
  Replay(std::vector<Variable> parameters, Device device);

  /// Forward, backward and update; the last is for what has the same numbers every time, such as
  /// the step of an optimizer that Optimizer::repeats. Each key is recorded by itself, with and
  /// without an update, so inputs should come in few buffers that are used again; of more than
  /// kMostKeys the oldest is forgotten. Error when a parameter has a hook, which a replay would not
  /// call.
  Outcome step(const Key& key, const Work& work);

  /// How many calls of step() were replays.
  std::size_t replays() const { return replays_; }

 private:
  /// What a recording has of a parameter beside its numbers.
  struct Layout {
    std::size_t moves = 0, attached = 0, listeners = 0, generations = 0;
    bool frozen = false;
    double grad_scale = 1.0;
    bool operator==(const Layout&) const = default;
  };
  /// Whether a parameter's gradient holds a value, whether that is the ranks' average, and whether
  /// the parameter has been updated by it: what decides whether backward overwrites the gradient,
  /// adds to it, shrinks it first, or refuses (GradState).
  struct Gradient {
    bool filled, synchronized, updated;
    bool operator==(const Gradient&) const = default;
  };
  static Gradient gradient_of(const GradState& state) {
    return {.filled = state.filled, .synchronized = state.synchronized, .updated = state.updated};
  }
  struct Entry {
    Key key;
    bool updates = false;
    std::vector<Gradient> before, after;  // per parameter
    bool rehearsed = false;
    Outcome outcome;  // outlives the recording, which writes to it
    std::unique_ptr<Recording> recording;
  };
  /// Where an exception came from: of a failed backward the engine tells the listeners, of a failed
  /// update nobody would.
  enum class Part { forward, backward, update };

  Entry& entry_of(const Key& key, bool updates);
  void look_at_parameters();  // and forgets what no longer fits
  void execute(Entry& entry, const Work& work, Part& part);
  void record_step(Entry& entry, const Work& work);
  void replay(const Entry& entry) const;
  void tell_listeners_of_failure() const;
  void set_gradients(const std::vector<Gradient>& states) const;

  std::vector<Variable> parameters_;
  Device device_;
  std::shared_ptr<CachingAllocator> memory_;  // of everything that forward and backward allocate
  std::vector<Layout> layouts_;               // per parameter, when last looked at
  std::vector<Gradient> gradients_;           // likewise
  std::vector<std::unique_ptr<Entry>> entries_;
  std::size_t replays_ = 0;
};

}  // namespace brigade::autograd
