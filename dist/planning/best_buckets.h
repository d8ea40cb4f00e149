#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "dist/ddp/bucket_plan.h"

namespace brigade::dist {

/// One gradient in the order in which backward makes them.
struct GradientReady {
  std::size_t parameter = 0;
  double ms = 0.0;  ///< after the beginning of backward; never earlier than the one before
};

/// How long an all-reduce of so many bytes takes, in ms.
using AllReduceMs = std::function<double(std::size_t bytes)>;

/// When the last bucket of `plan` has arrived, in ms after the beginning of backward:
///
///   begin_b = max(ready_b, end_{b-1}),  end_b = begin_b + T(bytes_b)
double last_arrival_ms(std::span<const PlanParameter> parameters,
                       std::span<const GradientReady> order, const BucketPlan& plan,
                       const AllReduceMs& all_reduce_ms);

/// The buckets whose last one arrives first, by that recurrence, for gradients in `order` cut into
/// contiguous pieces. Small pieces begin early, large ones pay the latency T(0) less often. Among
/// plans that are later by at most `tolerance` (0.01: of 1 %) the one with the fewest buckets.
///
/// Exact, by dynamic programming over the last cut: f(j) = min_i max(ready_j, f(i)) + T(i+1 ... j).
/// O(L^2) for L gradients and each number of buckets that is tried.
BucketPlan best_buckets(std::span<const PlanParameter> parameters,
                        std::span<const GradientReady> order, const AllReduceMs& all_reduce_ms,
                        double tolerance);

}  // namespace brigade::dist
