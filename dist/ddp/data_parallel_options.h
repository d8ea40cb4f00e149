#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "autograd/variable.h"
#include "dist/ddp/bucket_plan.h"
#include "dist/ddp/grad_sync.h"
#include "dist/hooks/comm_hook.h"

namespace brigade::dist {

/// What to do with the initial parameter values of the ranks.
enum class InitSync {
  /// They must be equal; a difference is an error that names rank, parameter and how much.
  verify,
  /// Rank 0's values win.
  broadcast
};

struct DataParallelOptions {
  SyncMode mode = SyncMode::overlap;
  std::size_t bucket_bytes = 25U << 20U;
  InitSync init_sync = InitSync::verify;
  /// How a bucket is brought together; with naive, which has no buckets, only as the default says.
  std::shared_ptr<CommHook> hook = std::make_shared<PlainAllReduce>();
  /// Whether a parameter that no loss depends on is part of the model instead of a mistake. Every
  /// synchronised backward then finds out which ones no rank has used; costs a small all-reduce,
  /// and on a GPU the host waits for it.
  bool find_unused_parameters = false;
  BucketPlan plan = {};  ///< the same on every rank; empty: made by bucket_policy()

  /// @name What makes a bucket, where no plan is given; see bucket_plan.h.
  /// @{
  BucketBy bucket_by = BucketBy::size;
  std::optional<std::size_t> first_bucket_bytes = {};  ///< empty: bucket_bytes
  std::optional<std::size_t> last_bucket_bytes = {};   ///< likewise
  /// @}
  /// All-reduce large buckets as several collectives of at most piece_bytes each.
  bool split_tensors = false;
  std::optional<std::size_t> piece_bytes = {};  ///< empty: bucket_bytes
  /// Make the buckets anew, once, from the order in which the first synchronised backward has
  /// produced the gradients; see bucket_rebuilder.h. A given plan is never changed.
  bool rebuild_buckets = true;
};

/// What makes a bucket with these options. With per_param: one parameter each.
BucketPolicy bucket_policy(const DataParallelOptions& options);

/// The plan that a DataParallel with these options starts with.
BucketPlan plan_buckets(std::span<const autograd::Variable> parameters,
                        const DataParallelOptions& options);

}  // namespace brigade::dist
