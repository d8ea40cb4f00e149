#pragma once

#include <iterator>

#include "autograd/variable.h"
#include "dist/ddp/grad_averager.h"

namespace brigade::dist {

/// One of the `count` parts of a step whose gradients are accumulated.
struct MicroBatch {
  int index = 0;
  int count = 1;

  bool last() const { return index + 1 == count; }

  /// Backward of loss / count: the sum over the micro-batches is then the gradient of their mean,
  /// as if they were one batch. loss.backward() instead would give the gradient of their sum.
  void backward(const autograd::Variable& loss) const { loss.backward(1.0 / count); }
};

/// The micro-batches of one step, for a range-based for (DataParallel::accumulate). All iterations
/// but the last run inside no_sync(); the last one's backward averages what all have accumulated.
/// Where the loop ends early, by break or an exception, no_sync() ends with it. Inside another
/// no_sync() no iteration synchronises.
class Accumulation {
 public:
  /// Error: fewer than one micro-batch. `averager` must outlive this.
  Accumulation(GradAverager& averager, int micro_batches);

  class Iterator {
   public:
    explicit Iterator(Accumulation& steps) : steps_(&steps) {}
    MicroBatch& operator*() const { return steps_->current_; }
    Iterator& operator++() {
      steps_->start(steps_->current_.index + 1);
      return *this;
    }
    bool operator==(std::default_sentinel_t) const {
      return steps_->current_.index == steps_->current_.count;
    }

   private:
    Accumulation* steps_;
  };

  Iterator begin() {
    start(0);
    return Iterator(*this);
  }
  static std::default_sentinel_t end() { return {}; }

 private:
  void start(int index);

  GradAverager& averager_;
  MicroBatch current_;
  GradAverager::NoSyncScope silent_;
};

}  // namespace brigade::dist
