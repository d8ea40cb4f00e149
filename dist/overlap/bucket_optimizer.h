#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "autograd/hooks.h"
#include "autograd/variable.h"
#include "dist/ddp/bucket_completion.h"

namespace brigade::dist {

/// What BucketOptimizer needs of an optimizer; see calls_of().
struct OptimizerCalls {
  /// On the thread of backward(), before a backward that synchronises: a new step begins.
  std::function<void()> begin_step;
  /// On the thread of backward(), when `bucket` has been launched: returns what updates it. That is
  /// executed on a stream of its own, in the order of launch, once, when the gradients are final;
  /// it must not touch a Variable, which belong to the thread of backward().
  std::function<std::function<void()>(const Bucket& bucket)> update;
  /// On the thread of backward(): no more updates of buckets will come.
  std::function<void()> end = [] {};
};

/// For optim::Optimizer, which must outlive the calls.
template <class Optimizer>
OptimizerCalls calls_of(Optimizer& optimizer) {
  return {
      .begin_step = [&optimizer] { optimizer.begin_step(); },
      .update = [&optimizer](const Bucket& bucket) { return optimizer.update_of(bucket.grads); },
      .end = [&optimizer] { optimizer.end_bucket_updates(); }};
}

/// How far the updates may lag behind.
enum class UpdateDeadline : std::uint8_t {
  end_of_backward,  ///< when backward() returns, the compute stream is ordered behind all of them
  next_read         ///< behind each, when somebody reads one of its parameters: the next forward
};

/// When one bucket was updated. Kept while the communicator's timing is on.
struct UpdateRecord {
  std::string label;  ///< the bucket's
  Event begin;
  Event end;
};

/// Updates each bucket's parameters as soon as its all-reduce is done, on a stream of its own,
/// while later buckets are still being computed or are on their way:
///
///   compute   | dW3 | dx3 | dW2 | dx2 | dW1 |      wait | or: forward 1 | wait | forward 2 ...
///   comm            | all-reduce b0 | all-reduce b1 | all-reduce b2 |
///   updates                         | w -= lr g, b0 | b1            | b2 |
///
/// The same arithmetic on the same numbers as optimizer.step() after backward, so the same bits.
///
/// Two things must have happened before a bucket may be overwritten: its gradients are summed, and
/// backward does not need its weights any more. The first does not imply the second: dW is launched
/// before dx = dy W is computed from the old W. So an update starts when the node has ended
/// (on_node_end), behind an event on the compute stream.
class BucketOptimizer final : public BucketCompletion, public autograd::GradListener {
 public:
  /// `parameters` as numbered in Bucket::members; these and `comm` must outlive this.
  BucketOptimizer(const std::vector<autograd::Variable>& parameters, Communicator& comm,
                  Device device, OptimizerCalls optimizer, UpdateDeadline deadline);
  ~BucketOptimizer() override;
  BucketOptimizer(const BucketOptimizer&) = delete;
  BucketOptimizer& operator=(const BucketOptimizer&) = delete;

  /// Waits for what is in flight, unless an exception is on its way out or a backward has failed: a
  /// rank may be gone, and its all-reduces would never end. Then updates that have not begun are
  /// dropped, so the optimizer may go. On a GPU they have been enqueued and are executed, when the
  /// ranks allow it: the optimizer must stay, and nothing read, until the device is idle. Prints
  /// why an update has failed.
  void finish() noexcept;
  /// Set once an update was dropped or has failed: the ranks no longer hold the same weights.
  const char* failure() const override;

  void backward_begins() override { optimizer_.begin_step(); }
  void launched(const Bucket& bucket, const Work& work) override;
  void backward_ended() override;
  void backward_aborted() noexcept override;

  void on_grad_ready(std::size_t /*index*/) override {}
  void on_node_end() override;

  std::vector<UpdateRecord> take_records() { return std::exchange(records_, {}); }

 private:
  struct Update {
    const Bucket* bucket;
    Work reduced;
    std::function<void()> run;
    Event done;
  };
  void start(Update& update);
  void wait_for_update(const Event& done);
  void wait_for_all() noexcept;
  void forget_all() noexcept;
  void revoke_permission() noexcept;

  const std::vector<autograd::Variable>& parameters_;
  Communicator& comm_;
  Device device_;
  OptimizerCalls optimizer_;
  UpdateDeadline deadline_;
  std::vector<autograd::ListenerHandle> handles_;
  std::vector<Update> updates_;  // of this backward, in the order of launch
  std::size_t started_ = 0;      // how many of them are in the stream
  std::vector<UpdateRecord> records_;
  int exceptions_at_start_ = std::uncaught_exceptions();
  bool all_made_ = true;  // no update has failed or was dropped
  /// To make updates, shared with the stream's thread; withdrawn when they are dropped. Only the
  /// thread of backward writes it, under the mutex, so it may read it without. The stream's holds
  /// the mutex through an update: withdrawing waits for the one that is running.
  struct Permission {
    std::mutex mutex;
    bool granted = true;
  };
  std::shared_ptr<Permission> permission_ = std::make_shared<Permission>();
  std::unique_ptr<Stream> stream_;  // last: its thread ends first
};

}  // namespace brigade::dist
