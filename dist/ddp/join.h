#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dist/comm/communicator.h"

namespace brigade::dist {

/// What Join::begin has agreed on for one step.
struct JoinStep {
  std::int64_t samples = 0;      ///< of all ranks together; 0: every shard is used up
  double seed_per_sample = 0.0;  ///< see seed()

  /// Whether any rank still has samples.
  bool active() const { return samples > 0; }
  /// For autograd::BackwardOptions::seed of a micro-batch of `n` of this rank's samples, whose loss
  /// is their mean.
  double seed(std::int64_t n) const { return seed_per_sample * static_cast<double>(n); }
};

/// Trains on shards of different lengths, when no rank knows how long the others' are (PyTorch:
/// torch.distributed.algorithms.Join). The result is that of one process on the union of the data.
///
///     while (true) {
///       const Batch batch = shard.next();           // empty when the shard is used up
///       const JoinStep step = join.begin(batch.size());
///       if (!step.active()) break;
///       optimizer.zero_grad();
///       if (batch.size() > 0) {
///         backward(loss(model(batch)), {.seed = step.seed(batch.size())});
///       } else {
///         data_parallel.shadow_backward();
///       }
///       optimizer.step();                           // on every rank: the parameters stay equal
///     }
///
/// With n_r samples and mean gradient g_r on rank r of R, N = Σ n_r, the mean over all samples is
/// Σ n_r g_r / N. GradAverager gives Σ seed_r g_r / R; so seed_r = n_r R / N.
class Join {
 public:
  enum class Weighting {
    /// Every sample counts the same.
    by_samples,
    /// Every rank that has samples counts the same, however few they are: seed = R / such ranks.
    /// The mean of means, as PyTorch's Join with divide_by_initial_world_size=False. Where it is
    /// not the mean over the samples, a warning says so once.
    per_rank_mean
  };

  /// `warn` is called on rank 0 with a whole line, by default to print it to stderr. `comm` must
  /// outlive this.
  explicit Join(Communicator& comm, Weighting weighting = Weighting::by_samples,
                std::function<void(const std::string&)> warn = {});

  /// A step begins in which this rank has `my_samples` samples, 0 if its shard is used up.
  /// Collective, on the host: a few bytes from each rank.
  JoinStep begin(std::int64_t my_samples);

 private:
  void warn_if_uneven(const std::vector<std::int64_t>& counts);

  Communicator& comm_;
  Weighting weighting_;
  std::function<void(const std::string&)> warn_;
  bool warned_ = false;
};

}  // namespace brigade::dist
