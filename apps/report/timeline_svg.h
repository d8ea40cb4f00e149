#pragma once

#include <string>

#include "apps/metrics/run_trace.h"
#include "apps/report/timeline_layout.h"

/// The recorded steps of all ranks as one picture: per rank a lane of what it computed, with its
/// layers below, and a lane of its collectives.
namespace brigade::apps {

/// Inline SVG for page.html. Pictures drawn with the same `ms_per_full_width`, at least the
/// length of the longest time_window(), have the same scale. In the lane of collectives, hatched is
/// what is exposed (step_metrics.h) and dotted is waiting for the last rank (split_collective).
std::string timeline_svg(const RunTrace& trace, double ms_per_full_width, StepRange steps = {});

/// Milliseconds for people, with fewer decimals the more there are: "0.123", "1.23", "12.3".
std::string ms_text(double ms);

}  // namespace brigade::apps
