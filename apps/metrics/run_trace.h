#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "apps/metrics/step_metrics.h"
#include "dist/launch/clock_alignment.h"

/// What all ranks did during a few steps, on one common clock.
namespace brigade::apps {

struct StepTrace {
  std::int64_t step = 0;  ///< counted from 1
  StepSpans spans;        ///< spans.start: ms after the first recorded step of rank 0 began
};

struct RankTrace {
  int rank = 0;
  std::string host;
  double clock_error_ms = 0.0;  ///< of this rank's clock against rank 0's
  std::vector<StepTrace> steps;
};

/// All ranks, the same steps of each.
struct RunTrace {
  std::string title;    ///< "overlap, 2 ranks"
  std::string device;   ///< "cpu", or the GPU's name
  std::string comm;     ///< what carried the gradients
  std::string caption;  ///< one more line for people: model, batch, an emulated link
  /// What travels under a collective's label: "bucket_2" -> "2.bias, 0.weight".
  std::map<std::string, std::string> contents = {};
  std::vector<RankTrace> ranks;
};

/// The largest error of any rank's clock against rank 0's.
double clock_error_ms(const RunTrace& trace);
/// The same as text: "clocks are aligned to 23 us".
std::string clocks_text(const RunTrace& trace);

/// Which steps are recorded: `skip` pass unseen, of which the last runs with recording on but is
/// thrown away, because the first recorded step pays for memory that the later ones reuse.
inline constexpr std::int64_t kTraceSkip = 5;  ///< of a run that is long enough
struct TraceSchedule {
  std::int64_t skip = kTraceSkip;
  std::int64_t steps = 3;

  bool records(std::int64_t step) const { return step + 1 >= skip && step < skip + steps; }
  bool keeps(std::int64_t step) const { return step >= skip && step < skip + steps; }
};

/// Time a rank's collective spent waiting for the last rank to start it, and moving data, in ms.
struct CollectiveSplit {
  double waiting = 0.0;
  double transfer = 0.0;
};

/// Splits collective number `index` of step number `step` (both positions in the vectors) of rank
/// number `rank`. Data can move only once the last rank has begun. Where collectives run across the
/// border of two steps, one may lie in another step on another rank; what goes on from the step
/// before has been waited for there.
CollectiveSplit split_collective(const RunTrace& trace, std::size_t rank, std::size_t step,
                                 std::size_t index);

/// The parameters in the collective called `label`; the label itself where that is not known.
const std::string& contents_of(const RunTrace& trace, const std::string& label);

/// `names`, joined by ", "; of more than four only the first, the last and how many there are.
std::string shortened(const std::string& names);

/// contents_of(), shortened.
std::string short_contents_of(const RunTrace& trace, const std::string& label);

/// What step starts are counted from (StepClock::epoch()), on this host's clock, and by how much
/// that may be wrong.
struct TraceEpoch {
  std::chrono::steady_clock::time_point when;
  double error_ms = 0.0;
};

/// Brings the ranks' recordings to rank 0, on its clock; the other ranks get an empty trace.
/// The offsets were measured before the first and after the last recorded step. A rank's clock
/// error is that of its offset and of both epochs, its own and rank 0's. Collective.
std::vector<RankTrace> gather_traces(dist::Communicator& comm, const std::string& host,
                                     std::vector<StepTrace> steps, const TraceEpoch& epoch,
                                     const dist::ClockOffset& before,
                                     const dist::ClockOffset& after);

}  // namespace brigade::apps
