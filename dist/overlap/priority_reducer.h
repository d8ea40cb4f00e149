#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "dist/ddp/reducer.h"
#include "dist/overlap/order_of_need.h"

namespace brigade::dist {

/// What one collective carries: the gradients of a bucket, or a range of them.
struct Chunk {
  Tensor grads;       ///< flat view
  std::string label;  ///< the bucket's, or "0.weight[2/8]" for the second of eight
};

/// The Reducer of --cross-step. It launches first what the next forward reads first, and can split
/// buckets into chunks, so that an urgent bucket need not wait for a large one.
///
/// The first backward is cold, so it is not observed. The next three are launched in bucket order
/// and timed; then the order of need (order_of_need.h) replaces bucket order. Ranks measure
/// different times but must launch alike, so rank 0's order counts. After a rebuild of the buckets
/// there is a new PriorityReducer.
class PriorityReducer final : public Reducer {
 public:
  /// Splits buckets larger than `chunk_bytes`, unless a communication hook compresses: hooks take
  /// whole buckets.
  PriorityReducer(SyncContext context, std::size_t chunk_bytes);

  /// Collective, and waits for the buckets in flight, once: when the order of need is computed.
  void on_backward_end() override;
  void on_backward_abort() noexcept override;

  /// What the next backward launches, in this order.
  const std::vector<LaunchItem>& order() const { return order_; }

 protected:
  void launch_full_buckets() override;

 private:
  /// When each bucket was launched, and when it was reduced.
  struct Observation {
    std::vector<Event> ready;
    std::vector<Event> reduced;
  };
  bool observing() const;
  std::vector<LaunchItem> order_of_need() const;

  std::vector<std::vector<Chunk>> chunks_;  // of each bucket
  std::vector<LaunchItem> order_;
  std::size_t next_ = 0;       // in order_
  std::size_t backwards_ = 0;  // that have ended
  std::vector<Observation> observations_;
};

/// All of `bucket`, as equal chunks of at most `chunk_bytes` each (at least kSliceAlignment); one
/// chunk if it is no larger.
std::vector<Chunk> split(const Bucket& bucket, std::size_t chunk_bytes);

}  // namespace brigade::dist
