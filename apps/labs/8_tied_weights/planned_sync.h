#pragma once

#include "apps/labs/common.h"
#include "dist/ddp/bucket.h"

/// What lab 8 and its exercise share.
namespace brigade::labs {

/// A GPT with two blocks. Its first parameter, transformer.wte.weight, is used twice.
inline nn::GPT make_gpt() {
  manual_seed(1);
  return nn::GPT({.layers = 2, .heads = 2, .width = 32, .context = 16, .vocabulary = 64});
}

/// Mean loss over tokens that count up from a random one, another for each step and rank.
inline Variable gpt_loss(nn::GPT& model, int step, int rank) {
  std::vector<std::int64_t> tokens(17);
  tokens[0] = random_bits({.seed = 2, .sequence = static_cast<std::uint32_t>(rank)},
                          static_cast<std::uint64_t>(step)) %
              64;
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    tokens[i] = (tokens[i - 1] + 3) % 64;
  }
  const std::span<const std::int64_t> all(tokens);
  return nn::cross_entropy(model(Variable(Tensor::from(all.first(16), {1, 16}))),
                           Tensor::from(all.last(16), {1, 16}));
}

/// DDP as in lab 5, with buckets from a plan. Counts those that leave early.
class PlannedSync final : public AllReduceListener {
 public:
  PlannedSync(const std::vector<Variable>& parameters, dist::Communicator& comm,
              const dist::BucketPlan& plan)
      : AllReduceListener(parameters, comm), bucket_of_(parameters.size()) {
    buckets_ = dist::make_buckets(parameters_, plan);
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
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
    ready_order_.clear();
    early_ = 0;
  }

  void on_grad_ready(std::size_t index) override {
    ready_order_.push_back(index);
    --missing_[bucket_of_[index]];
    while (works_.size() < buckets_.size() && missing_[works_.size()] == 0) {
      early_ += ready_order_.size() < parameters_.size() ? 1 : 0;
      const dist::Bucket& bucket = buckets_[works_.size()];
      works_.push_back(comm_.all_reduce(bucket.grads, bucket.label));
    }
    half_way_ = 2 * ready_order_.size() <= parameters_.size() ? works_.size() : half_way_;
  }

  /// Of the last backward: the parameters in the order in which their gradients were complete; how
  /// many buckets had left before the last gradient was complete, and when half of them were.
  const std::vector<std::size_t>& ready_order() const { return ready_order_; }
  std::size_t early() const { return early_; }
  std::size_t half_way() const { return half_way_; }
  std::size_t buckets() const { return buckets_.size(); }

 private:
  std::vector<std::size_t> bucket_of_;  // parameter -> bucket
  std::vector<dist::Bucket> buckets_;
  std::vector<std::size_t> missing_;  // bucket -> gradients still missing in this backward
  std::vector<std::size_t> ready_order_;
  std::size_t early_ = 0;
  std::size_t half_way_ = 0;
};

}  // namespace brigade::labs
