#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "autograd/variable.h"

namespace brigade::optim {

/// Parameters whose data and gradients lie in memory in this order and with the same gaps: one
/// kernel updates them all.
struct FlatSpan {
  std::vector<std::size_t> members;   ///< indices of parameters
  std::vector<std::int64_t> offsets;  ///< of each, in elements
  std::int64_t numel = 0;             ///< padding between members included
};

/// Joins parameters whose data and gradients adjoin in memory, as they do in the buckets of
/// dist/ddp/grad_averager.h. A parameter that has no gradient memory yet gets some. In the worst
/// case one span per parameter. Ordered by their first members and not by address, which differs
/// between ranks: sums over spans then add in one order on all ranks.
std::vector<FlatSpan> flat_spans(const std::vector<autograd::Variable>& parameters);

/// The memory from the first byte of `first` to the last of `last`, as one flat tensor.
Tensor joined(const Tensor& first, const Tensor& last);

}  // namespace brigade::optim
