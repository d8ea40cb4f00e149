#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "apps/metrics/run_trace.h"
#include "apps/report/timeline_canvas.h"

/// Which steps a time line shows, and where each rank's lanes lie in it.
namespace brigade::apps {

/// Positions in RankTrace::steps.
struct StepRange {
  std::size_t first = 0;
  std::size_t count = std::numeric_limits<std::size_t>::max();  ///< or as many as there are
};

std::span<const StepTrace> steps_in(const RankTrace& rank, StepRange range);

/// From the moment the first rank begins the first of these steps until everybody has ended the
/// last one, collectives included, on the ranks' common clock in ms. Empty if there is no step.
Interval time_window(const RunTrace& trace, StepRange steps = {});

/// The row of each collective of these steps: the first that is free when it begins, give or take
/// `clock_grain` ms. Where `max_rows` are busy, one lies over another.
std::vector<std::size_t> stack_rows(std::span<const StepTrace> steps,
                                    std::size_t max_rows = std::numeric_limits<std::size_t>::max(),
                                    double clock_grain = 0.0);

/// A rank's strip, from top to bottom. Its collectives fill rows of one height, as many as are in
/// flight at the same time; `rows` says for each, step by step, which one it lies in.
struct RankLayout {
  Row compute;
  Row layers;  ///< below `compute`
  std::vector<std::size_t> rows;
  Row comm;  ///< all rows together

  double top() const { return compute.top; }
  double bottom() const { return comm.top + comm.height; }
  Row row_of(std::size_t collective) const;
};

/// The first rank's strip begins at `top`.
std::vector<RankLayout> lay_out_ranks(const RunTrace& trace, StepRange steps, double top);

}  // namespace brigade::apps
