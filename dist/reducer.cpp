#include "dist/reducer.h"

#include <algorithm>

#include "core/error.h"

namespace brigade::dist {

Reducer::Reducer(SyncTargets targets)
    : targets_(targets),
      bucket_of_(targets.parameters.size()),
      arrived_(targets.parameters.size()) {
  for (std::size_t bucket = 0; bucket < targets.buckets.size(); ++bucket) {
    for (const std::size_t index : targets.buckets[bucket].members) {
      bucket_of_.at(index) = bucket;
    }
  }
  reset();
}

void Reducer::on_grad_ready(std::size_t index) {
  BRIGADE_CHECK(!arrived_.at(index), "reducer: the gradient of '",
                targets_.parameters[index].name(), "' was reported twice in one backward");
  arrived_[index] = true;
  --missing_[bucket_of_[index]];
  launch_full_buckets();
}

void Reducer::launch_full_buckets() {
  // A full bucket waits here until all before it have left: every rank launches 0, 1, 2, ...
  // whatever order its gradients came in.
  while (works_.size() < missing_.size() && missing_[works_.size()] == 0) {
    works_.push_back(targets_.comm.all_reduce(targets_.buckets[works_.size()].grads));
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
  reset();
}

void Reducer::reset() noexcept {
  works_.clear();
  std::fill(arrived_.begin(), arrived_.end(), false);
  missing_.clear();
  for (const Bucket& bucket : targets_.buckets) {
    missing_.push_back(bucket.members.size());
  }
}

}  // namespace brigade::dist
