#pragma once

#include <cstddef>
#include <vector>

#include "dist/ddp/grad_averager.h"
#include "dist/overlap/bucket_optimizer.h"

namespace brigade::dist {

/// While it lives, `optimizer` updates each bucket as soon as it is reduced, and nobody calls
/// optimizer.step(): every backward that synchronises is a step. With UpdateDeadline::next_read
/// communication and updates go on under the next forward, and a PriorityReducer launches the
/// chunks in the order in which that reads them. Bit-identical to stepping after backward.
/// Exception: the loss also reads a weight without a gradient, as in Variable(w.data()). Clone that
/// weight first.
///
/// The averager and the optimizer must outlive it. All ranks begin and end it at the same place,
/// between two backwards; one at a time. Its end waits for the updates in flight. If an exception
/// ends it, updates that have not begun are dropped (BucketOptimizer::finish), and every later
/// backward is refused.
class [[nodiscard]] InFlightUpdates {
 public:
  /// `chunk_bytes` is for the PriorityReducer. Errors: naive mode, which has no buckets;
  /// find_unused_parameters, because which ones are unused is known only when backward is over;
  /// another InFlightUpdates lives.
  InFlightUpdates(GradAverager& averager, OptimizerCalls optimizer, UpdateDeadline deadline,
                  std::size_t chunk_bytes = std::size_t{1} << 20U);
  ~InFlightUpdates();
  InFlightUpdates(const InFlightUpdates&) = delete;
  InFlightUpdates& operator=(const InFlightUpdates&) = delete;

  /// When buckets were updated since the last call; see Communicator::times.
  std::vector<UpdateRecord> take_records();

 private:
  GradAverager& averager_;
  BucketOptimizer* updates_ = nullptr;  // in the averager's hands; null: there are no parameters
};

}  // namespace brigade::dist
