#include "dist/reducer.h"

#include <algorithm>

#include "core/error.h"

namespace brigade::dist {

// One backward, from the Reducer's point of view. Backward reaches the last layer first, so bucket
// 0 holds the last parameters (bucket.h) and is full first:
//
//   compute   | dW3 db3 | dx3 | dW2 db2 | dx2 | dW1 db1 |          wait | optimizer
//   ready              ^b0                 ^b1         ^b2
//   comm                | all-reduce b0 | all-reduce b1 | all-reduce b2 |
//
// `works_.size()` is the number of buckets launched so far, and therefore the one that is next.
Reducer::Reducer(SyncTargets targets)
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
  BRIGADE_CHECK(!out_of_step_,
                "reducer: an earlier backward failed with all-reduces in flight, so the ranks no "
                "longer execute the same collectives; end the job");
  BRIGADE_CHECK(!arrived_.at(index), "reducer: the gradient of '",
                targets_.parameters[index].name(), "' was reported twice in one backward");
  arrived_[index] = true;
  // The counters are per bucket and not per model: a bucket does not care which of its gradients
  // came last.
  --missing_[bucket_of_[index]];
  launch_full_buckets();
}

void Reducer::launch_full_buckets() {
  // A full bucket waits here until all before it have left: every rank launches 0, 1, 2, ...
  // whatever order its gradients came in.
  while (works_.size() < missing_.size() && missing_[works_.size()] == 0) {
    works_.push_back(start_all_reduce(targets_.buckets[works_.size()], targets_.comm));
  }
}

void Reducer::on_backward_end() {
  if (works_.size() < targets_.buckets.size()) {
    throw_missing(targets_, arrived_);
  }
  // Only now, and not when a bucket is launched: a compute stream that waited there could never
  // have more than one bucket in flight.
  for (std::size_t bucket = 0; bucket < works_.size(); ++bucket) {
    targets_.comm.wait(works_[bucket], targets_.buckets[bucket].grads.device());
  }
  expect_next_backward();
}

void Reducer::reset() noexcept {
  out_of_step_ = out_of_step_ || !works_.empty();
  expect_next_backward();
}

void Reducer::expect_next_backward() noexcept {
  works_.clear();
  std::fill(arrived_.begin(), arrived_.end(), false);
  missing_.clear();
  for (const Bucket& bucket : targets_.buckets) {
    missing_.push_back(bucket.members.size());
  }
}

}  // namespace brigade::dist
