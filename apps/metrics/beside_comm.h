#pragma once

#include <cstddef>
#include <vector>

#include "apps/metrics/run_trace.h"

namespace brigade::apps {

/// What communication costs the computation beside it: cores, memory bandwidth, or on a GPU the
/// multiprocessors that NCCL occupies.
struct BesideComm {
  std::size_t operations = 0;  ///< that ran while a collective was in flight, over all steps
  double with_ms = 0.0;        ///< their time
  double without_ms = 0.0;     ///< that of the same operations where nobody communicates

  /// How much slower they ran: 0.1 is 10 % slower. 0 if there were none.
  double slower() const { return without_ms > 0.0 ? with_ms / without_ms - 1.0 : 0.0; }
};

/// Compares one rank's recorded steps with its `ideal` ones, the same work without communication.
///
///   slower = Σ d(o) / Σ d'(o) − 1     over the operations o whose spans intersect communication
///
/// An operation is an innermost scope of the compute lane. d is its duration; d' is the median over
/// the ideal steps of the operation with the same name in the same place: the k-th of that name in
/// its step. Operations that the ideal does not have are left out.
BesideComm beside_comm(const std::vector<StepTrace>& steps, const std::vector<StepTrace>& ideal);

}  // namespace brigade::apps
