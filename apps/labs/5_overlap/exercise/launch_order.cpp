// Exercise 5: ranks that finish in different orders. Repair on_grad_ready().
//
// The network has two towers. Odd ranks compute the right one first, as may happen when layers run
// on several threads. So gradients become ready in different orders on odd and even ranks.
#include "apps/labs/common.h"
#include "dist/comm/gather.h"
#include "dist/ddp/bucket.h"

namespace brigade::labs {
namespace {

/// y = left(x) + right(x)
class Towers final : public nn::Module {
 public:
  explicit Towers(bool right_first) : right_first_(right_first) {
    register_module("left", *left_);
    register_module("right", *right_);
  }

  Variable forward(const Variable& x) override {
    const Variable first = (right_first_ ? right_ : left_)->forward(x);
    return first + (right_first_ ? left_ : right_)->forward(x);
  }

 private:
  bool right_first_;
  std::unique_ptr<nn::Module> left_ = make_model(1);
  std::unique_ptr<nn::Module> right_ = make_model(2);
};

class TowerSync final : public AllReduceListener {
 public:
  TowerSync(const std::vector<Variable>& parameters, dist::Communicator& comm)
      : AllReduceListener(parameters, comm) {
    // Bucket 0: the right tower, bucket 1: the left one. Each tower has half of the parameters.
    dist::BucketPlan plan(2);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      plan[bucket_of(i)].push_back(i);
    }
    buckets_ = dist::make_buckets(parameters_, plan);
  }

  void on_backward_begin() override {
    missing_.assign(buckets_.size(), parameters_.size() / buckets_.size());
  }

  void on_grad_ready(std::size_t index) override {
    const std::size_t bucket = bucket_of(index);
    // TODO: this launches buckets in the order in which they become full, which differs between
    // ranks. Ranks match all-reduces by call order alone, so this adds unrelated gradients.
    if (--missing_[bucket] == 0) {
      works_.push_back(comm_.all_reduce(buckets_[bucket].grads));
    }
  }

  void on_node_end() override {
    early_ = early_ || (missing_[0] == 0 && missing_[1] > 0 && works_.size() == 1);
  }
  /// Whether bucket 0 ever left while gradients of bucket 1 were missing.
  bool early() const { return early_; }

 private:
  std::size_t bucket_of(std::size_t index) const { return index < parameters_.size() / 2 ? 1 : 0; }

  std::vector<dist::Bucket> buckets_;
  std::vector<std::size_t> missing_;  // bucket -> gradients still missing in this backward
  bool early_ = false;
};

}  // namespace

void run(dist::Communicator& comm, Recorder& trace) {
  Towers model(/*right_first=*/comm.rank() % 2 == 1);
  const TowerSync sync(model.parameters(), comm);
  train(model, comm, trace, [&](const Variable& loss) { loss.backward(1.0 / comm.size()); });
  Towers fresh(/*right_first=*/false);
  check_weights(model.parameters(), comm,
                std::vector<std::int64_t>(static_cast<std::size_t>(comm.size()), kRows), fresh);
  const std::vector<int> early = dist::all_gather_values(comm, sync.early() ? 1 : 0);
  expect(early.front() == 1,
         "expected bucket 0 to leave while gradients of bucket 1 were missing on rank 0, but it "
         "waited for them");
}

}  // namespace brigade::labs
