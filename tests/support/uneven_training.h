#pragma once

#include <cstdint>
#include <vector>

#include "dist/ddp/grad_averager.h"

namespace brigade::test {

struct UnevenRun {
  dist::SyncMode mode = dist::SyncMode::overlap;
  dist::UnusedPolicy unused = dist::UnusedPolicy::refuse;
  bool accumulate = false;  ///< two micro-batches per step, the first inside no_sync()
};

/// Three passes over 103 samples, dealt to `comm`'s ranks in shards of different lengths, in
/// batches of at most 8 per rank, with dist::Join and SGD with momentum. No rank is told how long
/// the others' shards are. Checks that the ranks end with equal weights and returns them.
std::vector<float> train_on_uneven_shards(dist::Communicator& comm, const UnevenRun& run);

/// The same by one process: each step on the union of what the `ranks` had in it.
std::vector<float> train_on_their_union(int ranks);

/// Batches that rank `rank` of `ranks` has in one pass.
std::int64_t steps_of_shard(int ranks, int rank);

}  // namespace brigade::test
