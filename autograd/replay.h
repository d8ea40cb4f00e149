#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "autograd/engine.h"
#include "core/recording.h"

namespace brigade::autograd {

/// Forward and backward of a training step whose shapes do not change, without building its graph
/// again: the first time they run as they always do, the second time what they enqueue is recorded,
/// and from the third on only that is repeated. On the CPU that saves the nodes and their order; on
/// a GPU the step becomes two launches (CUDA graphs). Same kernels on the same numbers, hence the
/// same bits.
///
/// Not recorded is what reads Variables on the host: TraceScopes, UpdateDeadline::next_read,
/// hooks on parameters (an error), a graph that looks different every time.
class Replay {
 public:
  /// What must be as it was for a recording to fit: the memory of inputs and targets, and every
  /// number that goes into a kernel.
  struct Key {
    const std::byte* inputs = nullptr;
    const std::byte* targets = nullptr;
    std::int64_t samples = 0;
    std::size_t micro_batch = 0;  ///< the first overwrites gradients, the others add
    double seed = 1.0;            ///< BackwardOptions::seed
    bool synchronizes = true;     ///< not inside no_sync()
    bool operator==(const Key&) const = default;
  };

  /// `parameters`: all that backward reaches, on `device`. When one of them gets other memory, what
  /// was recorded is forgotten.
  Replay(std::vector<Variable> parameters, Device device)
      : parameters_(std::move(parameters)), device_(device) {}

  /// The loss that `compute` returns, or its successor in the same memory: good until the next
  /// forward() with this key.
  Tensor forward(const Key& key, const std::function<Variable()>& compute);

  /// Backward of the last forward().
  void backward();

  /// How many calls of forward() were replays.
  std::size_t replays() const { return replays_; }

 private:
  struct Entry {
    Key key;
    int visits = 0;
    Variable loss;  // with its graph, until backward
    Tensor value;   // of the loss, once recorded
    std::unique_ptr<Recording> forward, backward;
    std::vector<bool> synchronized;  // per parameter, after backward
  };

  Entry& entry_of(const Key& key);
  void note_gradients(Entry& entry) const;
  void mark_gradients(const Entry& entry) const;

  std::vector<Variable> parameters_;
  Device device_;
  std::vector<std::unique_ptr<Entry>> entries_;
  Entry* current_ = nullptr;
  std::size_t moves_ = 0;
  std::size_t replays_ = 0;
};

}  // namespace brigade::autograd
