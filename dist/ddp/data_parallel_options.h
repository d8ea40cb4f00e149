#pragma once

#include <cstddef>
#include <memory>

#include "dist/ddp/bucket_plan.h"
#include "dist/ddp/comm_hook.h"
#include "dist/ddp/grad_sync.h"

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
  std::size_t bucket_bytes = 25U << 20U;  ///< capacity of a bucket; see assign_buckets
  InitSync init_sync = InitSync::verify;
  /// How a bucket is all-reduced. naive has no buckets and takes only the default.
  std::shared_ptr<CommHook> hook = std::make_shared<PlainAllReduce>();
  /// Allows parameters that no loss depends on. Every synchronised backward then finds out which
  /// ones no rank has used: a small all-reduce, and on a GPU the host waits for it.
  bool find_unused_parameters = false;
  /// The same on every rank, and never changed. Empty: by bucket_bytes, in expected_order() first
  /// and after the first synchronised backward in the order observed (bucket_rebuilder.h).
  BucketPlan plan = {};

  /// What assign_buckets gets; per_param: one parameter each.
  std::size_t capacity() const { return mode == SyncMode::per_param ? 0 : bucket_bytes; }
};

}  // namespace brigade::dist
