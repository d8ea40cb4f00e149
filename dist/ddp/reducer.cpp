#include "dist/ddp/reducer.h"

namespace brigade::dist {

// One backward, from the Reducer's point of view. Backward reaches the last layer first, so bucket
// 0 holds the last layers (expected_order in bucket_plan.h) and is full first:
//
//   compute   | dW3 db3 | dx3 | dW2 db2 | dx2 | dW1 db1 |          wait | optimizer
//   ready              ^b0             ^b1             ^b2
//   comm                | all-reduce b0 | all-reduce b1 | all-reduce b2 |
Reducer::Reducer(SyncContext context) : context_(context), bucket_of_(context.parameters.size()) {
  for (std::size_t bucket = 0; bucket < context.buckets.size(); ++bucket) {
    for (const std::size_t index : context.buckets[bucket].members) {
      bucket_of_.at(index) = bucket;
    }
  }
  expect_next_backward();
}

void Reducer::on_grad_ready(std::size_t index) {
  --missing_[bucket_of_.at(index)];
  launch_full_buckets();
}

void Reducer::launch_full_buckets() {
  // A full bucket waits here until all before it are launched: every rank launches in one order,
  // whatever order its gradients came in.
  for (; launched_ < context_.buckets.size() && full(launched_); ++launched_) {
    const Bucket& bucket = context_.buckets[launched_];
    // The usual hook, PlainAllReduce, calls comm.all_reduce(); others compress.
    const Work work =
        context_.hook.all_reduce(launched_, bucket.grads, bucket.label, context_.comm);
    context_.completion.launched(bucket, work);
  }
}

void Reducer::on_backward_end() {
  context_.completion.backward_ended();  // WaitForBuckets: comm.wait() for each Work
  expect_next_backward();
}

void Reducer::on_backward_abort() noexcept {
  context_.completion.backward_aborted();
  expect_next_backward();
}

void Reducer::expect_next_backward() noexcept {
  launched_ = 0;
  missing_.clear();
  for (const Bucket& bucket : context_.buckets) {
    missing_.push_back(bucket.members.size());
  }
}

}  // namespace brigade::dist
