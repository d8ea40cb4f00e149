#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/variable.h"
#include "dist/comm/communicator.h"
#include "dist/ddp/grad_averager.h"

namespace brigade::dist {

/// Collective. Throws VerificationError unless all ranks agree on names, shapes and dtypes (of the
/// `frozen` parameters as well), mode, bucket capacity, what to do about unused parameters, the
/// hook, and the members of each bucket. Mismatched collectives are undefined behaviour in MPI:
/// they hang, abort or silently add unrelated numbers, so this is compared before the first one.
void check_same_layout(const std::vector<autograd::Variable>& parameters,
                       const std::vector<autograd::Variable>& frozen,
                       const DataParallelOptions& options, const BucketPlan& plan,
                       Communicator& comm);

enum class Replicas { initial, trained };

/// Collective. Throws VerificationError unless all ranks hold the same bits; names the first
/// parameter that differs, the rank that differs from rank 0, and the largest difference between
/// ranks, and says what to do.
void check_same_values(const std::vector<autograd::Variable>& parameters, Communicator& comm,
                       Replicas replicas);

/// How far the ranks' parameters are apart.
struct RankDifference {
  double value = 0.0;     ///< largest |difference| of one element between any two ranks; NaN: ∞
  std::string parameter;  ///< that it is in; empty when all are equal
};
/// Collective; the same result on every rank. Every rank receives all ranks' parameters, one at a
/// time: for small models that drift apart, not for every step of a large one.
RankDifference largest_rank_difference(const std::vector<autograd::Variable>& parameters,
                                       Communicator& comm);

/// 64-bit hash (xxh3) of the parameters' bytes, in order: equal hashes on all ranks mean equal
/// weights. Waits for the device.
std::uint64_t hash_parameters(const std::vector<autograd::Variable>& parameters);

/// Collective. Overwrites every rank's values with rank 0's.
void broadcast_parameters(const std::vector<autograd::Variable>& parameters, Communicator& comm);

}  // namespace brigade::dist
