#pragma once

#include <memory>
#include <string>

#include "dist/comm/communicator.h"

namespace brigade::test {

/// "ring", "halving", "tree" or "ordered".
std::unique_ptr<dist::AllReduce> make_all_reduce(const std::string& name);

/// `numel` numbers below 1 whose sums have to be rounded, others on each rank.
Tensor terms(std::int64_t numel, DType dtype, int rank);

/// Checks the communicator's all_reduce on `numel` elements: all ranks have the same bits, and they
/// are the sum of all ranks' terms() within what rounding in another order may change.
void expect_all_reduce_sums(dist::Communicator& comm, std::int64_t numel, DType dtype);

}  // namespace brigade::test
