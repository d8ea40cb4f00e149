#pragma once

#include "dist/ddp/grad_sync.h"

namespace brigade::dist {

/// Overlaps communication with backward: all-reduces a bucket as soon as its gradients are final,
/// while the gradients of earlier layers are still being computed (PyTorch DDP, arXiv:2006.15704,
/// section 3.2). With one parameter per bucket it is `per_param`, with buckets of --bucket-mb it is
/// `overlap`.
class Reducer : public GradSync {
 public:
  explicit Reducer(SyncContext context);

  /// Parameter `index` has received its last contribution of this backward.
  /// AccumulateGrad::finish() calls GradAverager::on_grad_ready(), which calls this.
  ///
  /// Counts down; the gradient is already in its slice of the bucket. A full bucket is launched
  /// with the full ones right behind it, in bucket order and not in order of arrival. Collectives
  /// are matched by call order alone; were two ranks to finish layers in different orders,
  /// launching on arrival would sum unrelated gradients, or hang.
  ///
  /// Runs on the thread of backward() and returns at once: the all-reduce is queued behind an event
  /// of the compute stream, so it cannot read a gradient that is still being written. Inside
  /// no_sync() it is not called.
  void on_grad_ready(std::size_t index) override;

  /// Every bucket has been launched. Orders the caller's later work behind the collectives; see
  /// BucketCompletion::backward_ended().
  void on_backward_end() override;

  /// Forgets a backward that failed. Buckets already launched stay in flight, because waiting for a
  /// rank that failed as well would hang: GradAverager refuses every later backward then.
  void on_backward_abort() noexcept override;

 protected:
  /// Launches what can be launched now. PriorityReducer (dist/overlap) has an order of its own;
  /// FlatSync launches nothing before on_backward_end().
  virtual void launch_full_buckets();
  bool full(std::size_t bucket) const { return missing_[bucket] == 0; }

  SyncContext context_;

 private:
  void expect_next_backward() noexcept;

  std::vector<std::size_t> bucket_of_;  // parameter -> bucket

  // State of one backward.
  std::vector<std::size_t> missing_;  // bucket -> gradients still to come
  std::size_t launched_ = 0;          // buckets launched: the next one is this
};

}  // namespace brigade::dist
