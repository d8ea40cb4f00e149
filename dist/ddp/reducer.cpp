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
// What leaves when is `targets_.order`, which is fixed while a backward runs and the same on every
// rank; `sent_` is how much of it has left in this backward, and therefore what is next.
Reducer::Reducer(SyncContext targets)
    : targets_(targets),
      bucket_of_(targets.parameters.size()),
      arrived_(targets.parameters.size()) {
  for (std::size_t bucket = 0; bucket < targets.buckets.size(); ++bucket) {
    for (const std::size_t index : targets.buckets[bucket].members) {
      bucket_of_.at(index) = bucket;
    }
  }
  expect_next_backward();
}

void Reducer::on_grad_ready(std::size_t index) {
  BRIGADE_CHECK(!arrived_.at(index), "reducer: the gradient of '",
                targets_.parameters[index].name(), "' was reported twice in one backward");
  arrived_[index] = true;
  --missing_[bucket_of_[index]];
  launch_full_buckets();
}

void Reducer::launch_full_buckets() {
  // A full bucket waits here until all before it have left: every rank launches in one order,
  // whatever order its gradients came in.
  while (sent_ < targets_.order.size() && missing_[targets_.order[sent_].bucket] == 0) {
    const LaunchItem& next = targets_.order[sent_++];
    const Bucket& bucket = targets_.buckets[next.bucket];
    const Work work =
        targets_.hook.all_reduce(next.bucket, bucket.pieces[next.piece], targets_.comm);
    // The communicator works collectives off one after the other, so the last piece's Work stands
    // for the bucket, and rethrows what any of them threw (core/runtime/stream.h).
    if (--unsent_[next.bucket] == 0) {
      targets_.sink.launched(next.bucket, bucket, work);
    }
  }
}

void Reducer::on_backward_end() {
  check_all_arrived(targets_, arrived_);
  targets_.sink.backward_ended();
  expect_next_backward();
}

void Reducer::reset() noexcept {
  targets_.sink.reset();
  expect_next_backward();
}

void Reducer::expect_next_backward() noexcept {
  sent_ = 0;
  std::fill(arrived_.begin(), arrived_.end(), false);
  missing_.clear();
  unsent_.clear();
  for (const Bucket& bucket : targets_.buckets) {
    missing_.push_back(bucket.members.size());
    unsent_.push_back(bucket.pieces.size());
  }
}

}  // namespace brigade::dist
