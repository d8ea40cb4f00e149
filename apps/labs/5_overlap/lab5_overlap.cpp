// Lab 5: bucketed overlap: DDP.
//
// Lab 3 sends early but in many small messages; lab 4 sends few messages but late. Here a bucket is
// launched when its last gradient is ready, while backward continues:
//
//   - each bucket counts its missing gradients;
//   - a full bucket is launched only after all buckets before it;
//   - on_backward_end waits for all of them.
#include "apps/labs/common.h"
#include "dist/ddp/grad_averager.h"

namespace brigade::labs {
namespace {

constexpr std::size_t kCapBytes = 8192;

class OverlapSync final : public AllReduceListener {
 public:
  OverlapSync(const std::vector<Variable>& parameters, dist::Communicator& comm)
      : AllReduceListener(parameters, comm), bucket_of_(parameters.size()), narrate_{comm} {
    std::vector<std::size_t> bytes;
    for (const Variable& parameter : parameters_) {
      bytes.push_back(dist::slice_bytes(parameter.data()));
    }
    // Flat tensors as in lab 4, of at most kCapBytes each, filled from the last parameter on.
    buckets_ = dist::make_buckets(parameters_, dist::assign_buckets(bytes, kCapBytes));
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      say(comm_, "bucket {}: {} bytes", bucket, buckets_[bucket].grads.nbytes());
      for (const std::size_t index : buckets_[bucket].members) {
        bucket_of_[index] = bucket;
      }
    }
  }

  void on_backward_begin() override {
    missing_.clear();
    for (const dist::Bucket& bucket : buckets_) {
      missing_.push_back(bucket.members.size());
    }
  }

  void on_grad_ready(std::size_t index) override {
    const std::size_t mine = bucket_of_[index];
    --missing_[mine];
    narrate_("  {:<8}  is ready: bucket {} misses {}", parameters_[index].name(), mine,
             missing_[mine]);
    if (missing_[mine] == 0 && works_.size() < mine) {
      narrate_("            bucket {} is full, but bucket {} has not left", mine, works_.size());
    }
    // works_ has one element per launched bucket, so works_.size() is the next bucket. Not "if mine
    // is full, launch it": ranks match collectives by call order alone, so the order
    // must not depend on when a gradient happens to be ready.
    while (works_.size() < buckets_.size() && missing_[works_.size()] == 0) {
      narrate_("            bucket {} leaves", works_.size());
      works_.push_back(comm_.all_reduce(buckets_[works_.size()].grads,
                                        "bucket_" + std::to_string(works_.size())));
    }
  }

  void on_backward_end() override {
    narrate_("  backward has ended: waiting for {} buckets", works_.size());
    AllReduceListener::on_backward_end();
    narrate_.silent = true;
  }

 private:
  std::vector<std::size_t> bucket_of_;  // parameter -> bucket
  std::vector<dist::Bucket> buckets_;
  std::vector<std::size_t> missing_;  // bucket -> gradients still missing in this backward
  Narrator narrate_;
};

/// Trains and returns the number of collectives per step. Backward starts from `share`.
std::uint64_t collectives_per_step(nn::Module& model, dist::Communicator& comm, Recorder& trace,
                                   double share) {
  const std::uint64_t before = comm.collectives();
  train(model, comm, trace, [share](const Variable& loss) { loss.backward(share); });
  return (comm.collectives() - before) / kSteps;
}

}  // namespace

void run(dist::Communicator& comm, Recorder& trace) {
  const auto model = make_model();
  const OverlapSync sync(model->parameters(), comm);
  const std::uint64_t ours = collectives_per_step(*model, comm, trace, 1.0 / comm.size());
  check_weights(model->parameters(), comm, comm.size());

  const auto same_model = make_model();  // the library divides by N itself
  const dist::GradAverager parallel(same_model->parameters(), comm, {.bucket_bytes = kCapBytes});
  const std::uint64_t theirs = collectives_per_step(*same_model, comm, trace, 1.0);
  say(comm, "collectives per step: {} here, {} in dist::DataParallel", ours, theirs);
  expect(ours == theirs, "expected as many collectives as dist::DataParallel");
}

}  // namespace brigade::labs
