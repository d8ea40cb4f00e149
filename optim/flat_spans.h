#pragma once

#include <cstddef>
#include <vector>

#include "autograd/variable.h"

namespace brigade::optim {

/// Indices of parameters whose data and gradients lie in memory in this order and with the same
/// gaps: one kernel updates them all.
using FlatSpan = std::vector<std::size_t>;

/// Joins parameters whose data and gradients adjoin in memory, as they do in the buckets of
/// dist/ddp/grad_averager.h. A parameter that has no gradient memory yet gets some. In the worst
/// case one span per parameter.
std::vector<FlatSpan> flat_spans(const std::vector<autograd::Variable>& parameters);

/// The memory from the first byte of `first` to the last of `last`, as one flat tensor.
Tensor joined(const Tensor& first, const Tensor& last);

}  // namespace brigade::optim
