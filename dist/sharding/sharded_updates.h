#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/share.h"
#include "dist/ddp/comm_hook.h"

namespace brigade::dist {

/// Divides the optimizer among the ranks (ZeRO stage 1; Rajbhandari et al., arXiv:1910.02054,
/// section 5.1): each keeps the optimizer's state for 1/N of every bucket, and updates that.
///
///   optim::Adam adam(model.parameters());
///   dist::DataParallel ddp(model, world, {.hook = dist::shard(adam)});
///
/// An all-reduce is a reduce-scatter, then an all-gather. Here the first half brings each rank the
/// sum of its share of the gradients, and the second half is about the new weights:
///
///   compute | dW3 dx3 | dW2 dx2 | dW1 |      wait | adam |         | forward 1 | wait | forward 2
///   comm              | scatter b0 | scatter b1 |        | gather b1 | gather b0 |
///
/// As many bytes travel as in an all-reduce. The all-gathers run under the next forward, which
/// waits for each parameter only when it reads it. The last bucket goes first: forward needs it
/// first.
///
/// Weights have the same bits as with a sum in rank order (OrderedAllReduce), but for
/// clip_grad_norm(): the ranks add up the norm's f64 squares in another order. After backward only
/// this rank's share of a gradient is the average over the ranks; the rest has no meaning, unless
/// the backward has ended with other buckets than it began with.
class ShardedUpdates final : public CommHook {
 public:
  ~ShardedUpdates() override;

  std::string name() const override { return "sharded optimizer"; }
  void prepare(std::span<const autograd::Variable> parameters, std::span<const Bucket> buckets,
               Communicator& comm) override;
  void backward_begins() override;
  Work all_reduce(std::size_t bucket, const Tensor& grads, std::string_view label,
                  Communicator& comm) override;

  /// @name For the optimizer (optim::Shards). On the rank's own thread.
  /// @{
  std::optional<Share> mine(std::int64_t numel) const;
  void all_gather(const Tensor& tensor);
  void sum(const Tensor& tensor);
  /// The weights begin to travel.
  void updated();
  /// @}

 private:
  bool is_divided(const autograd::Variable& parameter) const;

  Communicator* comm_ = nullptr;  // before prepare(): the optimizer has everything to itself
  std::vector<autograd::Variable> parameters_;
  std::vector<Bucket> buckets_;
  int exceptions_at_start_ = std::uncaught_exceptions();
};

/// The hook for DataParallelOptions. From now on `optimizer`, an optim::Optimizer of exactly the
/// parameters that the DataParallel will have, needs the ranks: step(), clip_grad_norm() and
/// checkpoints are collective. The DataParallel's communicator must outlive it.
template <class Optimizer>
std::shared_ptr<CommHook> shard(Optimizer& optimizer) {
  const auto hook = std::make_shared<ShardedUpdates>();
  optimizer.shard({.mine = [hook](std::int64_t numel) { return hook->mine(numel); },
                   .all_gather = [hook](const Tensor& tensor) { hook->all_gather(tensor); },
                   .sum = [hook](const Tensor& tensor) { hook->sum(tensor); },
                   .updated = [hook] { hook->updated(); }});
  return hook;
}

}  // namespace brigade::dist
