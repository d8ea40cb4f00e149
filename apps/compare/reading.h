#pragma once

#include <string>
#include <vector>

#include "apps/compare/comparison.h"

namespace brigade::apps {

/// The step a perfect reducer would reach with the measured parts, in ms: bucket b starts when its
/// gradients are ready and bucket b-1 has arrived, and takes as long as in mode flat, where nothing
/// runs beside it. 0 if flat was not measured, and with several micro-batches.
///
///   start_b = max(ready_b, end_(b-1))   end_b = start_b + T_b   ready_b: without communication
///   step = max(end of backward, end_last) + optimizer
double bound_ms(const RunInfo& info, const Comparison& result);

/// The figures in plain words, one or two sentences each: what is exposed and why, what to try.
std::vector<std::string> reading(const RunInfo& info, const Comparison& result);

}  // namespace brigade::apps
