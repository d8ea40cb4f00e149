#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "autograd/variable.h"
#include "dist/comm/communicator.h"
#include "dist/ddp/bucket.h"

namespace brigade::dist {

/// Watches the first backward that synchronises, and once: in which order do gradients really
/// become ready?
///
/// The first plan follows a guess, expected_order. Where it is wrong a full bucket waits for one
/// before it whose last gradient comes late, and the network idles. So after that backward all
/// ranks rebuild their buckets from the observed order (PyTorch DDP does the same). Ranks may have
/// observed different orders, and collectives match by order alone: rank 0's counts.
///
/// For a stack of layers whose parameters are named as modules name them, "2.weight", the guess is
/// right. It is wrong where layers are registered in another order than they are used, and for
/// parameters that are never reached. Inside a bucket the order is of no consequence, and nothing
/// moves for it.
class BucketRebuilder {
 public:
  /// `wanted` false: never watches, and decide() is never due.
  explicit BucketRebuilder(bool wanted) : watching_(wanted) {}

  /// Parameter `index` is ready, in a backward that synchronises.
  void note(std::size_t index) {
    if (watching_) {
      seen_.push_back(index);
    }
  }
  /// The backward failed: the next one that synchronises is watched instead.
  void forget() noexcept { seen_.clear(); }

  /// Whether decide() is still to be called, at the end of this backward. The same on every rank.
  bool due() const { return watching_; }

  /// The plan for the order that rank 0 has seen, or nothing if its buckets are those of
  /// `current`. Parameters that rank 0 has not seen go behind all others, in the expected
  /// order. Not due any more afterwards, unless rank 0 has seen nothing because it had no samples
  /// (GradAverager::shadow_backward). Collective; blocks on the host, so no collective may be in
  /// flight.
  std::optional<BucketPlan> decide(std::span<const autograd::Variable> parameters,
                                   std::size_t cap_bytes, const std::vector<Bucket>& current,
                                   Communicator& comm);

 private:
  bool watching_;
  std::vector<std::size_t> seen_;
};

}  // namespace brigade::dist
