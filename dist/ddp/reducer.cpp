#include "dist/ddp/reducer.h"

#include <algorithm>

#include "core/error.h"

namespace brigade::dist {

// One backward, from the Reducer's point of view. Backward reaches the last layer first, so bucket
// 0 holds the last layers (expected_order in bucket_plan.h) and is full first:
//
//   compute   | dW3 db3 | dx3 | dW2 db2 | dx2 | dW1 db1 |          wait | optimizer
//   ready              ^b0             ^b1             ^b2
//   comm                | all-reduce b0 | all-reduce b1 | all-reduce b2 |
//
// What leaves when is `context_.order`, which is fixed while a backward runs and the same on every
// rank; `launched_` is how much of it has left in this backward, and therefore what is next.
Reducer::Reducer(SyncContext context)
    : context_(context),
      bucket_of_(context.parameters.size()),
      arrived_(context.parameters.size()) {
  for (std::size_t bucket = 0; bucket < context.buckets.size(); ++bucket) {
    for (const std::size_t index : context.buckets[bucket].members) {
      bucket_of_.at(index) = bucket;
    }
  }
  expect_next_backward();
}

void Reducer::on_grad_ready(std::size_t index) {
  BRIGADE_CHECK(!arrived_.at(index), "reducer: the gradient of '",
                context_.parameters[index].name(), "' was reported twice in one backward");
  arrived_[index] = true;
  --missing_[bucket_of_[index]];
  launch_full_buckets();
}

void Reducer::launch_full_buckets() {
  // A full bucket waits here until all before it have left: every rank launches in one order,
  // whatever order its gradients came in.
  while (launched_ < context_.order.size() && missing_[context_.order[launched_].bucket] == 0) {
    const LaunchItem& next = context_.order[launched_++];
    const Bucket& bucket = context_.buckets[next.bucket];
    const Work work =
        context_.hook.all_reduce(next.bucket, bucket.pieces[next.piece], context_.comm);
    // The communicator works collectives off one after the other, so the last piece's Work stands
    // for the bucket, and rethrows what any of them threw (core/runtime/stream.h).
    if (--chunks_left_[next.bucket] == 0) {
      context_.completion.launched(next.bucket, bucket, work);
    }
  }
}

void Reducer::on_backward_end() {
  check_all_arrived(context_, arrived_);
  context_.completion.backward_ended();
  expect_next_backward();
}

void Reducer::reset() noexcept {
  context_.completion.reset();
  expect_next_backward();
}

void Reducer::expect_next_backward() noexcept {
  launched_ = 0;
  std::fill(arrived_.begin(), arrived_.end(), false);
  missing_.clear();
  chunks_left_.clear();
  for (const Bucket& bucket : context_.buckets) {
    missing_.push_back(bucket.members.size());
    chunks_left_.push_back(bucket.pieces.size());
  }
}

}  // namespace brigade::dist
