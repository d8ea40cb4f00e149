#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "autograd/variable.h"
#include "core/share.h"
#include "optim/flat_spans.h"

namespace brigade::optim {

/// Ranks that divide an optimizer's work and its state among them; dist/sharding makes one.
struct Shards {
  /// This rank's share of a span; nothing as long as each rank has all of it.
  std::function<std::optional<Share>(std::int64_t numel)> mine;
  std::function<void(const Tensor&)> all_gather;  ///< copies every rank's share of a span to all
  std::function<void(const Tensor&)> sum;         ///< in place, over the ranks
  std::function<void()> updated;  ///< ends step(): the weights of other shares are still old
};

/// A span, and the numbers that an optimizer keeps for each of its weights from one step to the
/// next, such as momentum.
struct StateSpan : FlatSpan {
  Share mine;                 ///< all of it, or this rank's
  bool sharded = false;       ///< the same on all ranks, though one may have all of it
  std::vector<Tensor> slots;  ///< one for each number: of `mine`, in the layout of the weights
};

/// An optimizer's state: `slots` numbers per weight. They begin as 0, and padding stays 0.
class FlatState {
 public:
  FlatState(std::vector<autograd::Variable> parameters, std::size_t slots)
      : parameters_(std::move(parameters)), slots_(slots) {}

  /// From the next follow_parameters() on keeps only this rank's share of every span.
  void shard(Shards shards);
  const std::optional<Shards>& shards() const { return shards_; }

  /// If a parameter has moved in memory, finds the spans again and copies the state into their
  /// layout, bit by bit, so training goes on as if nothing had moved. Collective over the shards.
  void follow_parameters();

  /// Of the last follow_parameters().
  const std::vector<StateSpan>& spans() const { return spans_; }

  /// A slot of every parameter, in its shape: views, or complete copies for which the ranks put
  /// their shares together. Collective over the shards.
  std::vector<Tensor> by_parameter(std::size_t slot) const;
  /// Stores tensors that by_parameter() returned and the caller has changed. Copies only this
  /// rank's shares; views need no copy.
  void load(std::size_t slot, std::vector<Tensor> by_parameter);

  /// What this rank keeps. Memory is allocated when spans are found.
  std::size_t nbytes() const;

 private:
  std::vector<autograd::Variable> parameters_;
  std::size_t slots_;
  std::optional<Shards> shards_;
  std::vector<StateSpan> spans_;
  std::vector<std::size_t> storage_versions_;  // of each parameter when the spans were found
};

}  // namespace brigade::optim
