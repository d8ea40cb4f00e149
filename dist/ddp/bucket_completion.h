#pragma once

#include <vector>

#include "dist/comm/communicator.h"
#include "dist/ddp/bucket.h"

namespace brigade::dist {

/// Says what happens to a bucket after its all-reduce has been started. All calls come on the
/// thread of backward().
class BucketCompletion {
 public:
  virtual ~BucketCompletion() = default;

  /// A backward that synchronises is about to begin.
  virtual void backward_begins() {}

  /// The all-reduce of `bucket` was started; `work` is done when all of the bucket is. `bucket`
  /// lives until backward_ended() or backward_aborted().
  virtual void launched(const Bucket& bucket, const Work& work) = 0;

  /// Backward is over and every bucket was launched. Afterwards whatever the caller enqueues on the
  /// compute stream, and reads through Variable::data() or grad(), is ordered behind the
  /// collectives.
  virtual void backward_ended() = 0;

  /// The backward was abandoned.
  virtual void backward_aborted() noexcept = 0;

  /// Why no further backward may run, for example because an update was lost; null if one may.
  virtual const char* failure() const { return nullptr; }
};

/// The plain way: the compute stream waits for every bucket, then the caller's optimizer runs.
class WaitForBuckets final : public BucketCompletion {
 public:
  explicit WaitForBuckets(Communicator& comm) : comm_(comm) {}

  void launched(const Bucket& /*bucket*/, const Work& work) override { in_flight_.push_back(work); }

  // Only now, and not when a bucket is launched: a compute stream that waited there could never
  // have more than one bucket in flight. On a GPU the host does not wait.
  void backward_ended() override {
    for (const Work& work : in_flight_) {
      comm_.wait(work);
    }
    in_flight_.clear();
  }

  void backward_aborted() noexcept override { in_flight_.clear(); }

 private:
  Communicator& comm_;
  std::vector<Work> in_flight_;
};

}  // namespace brigade::dist
