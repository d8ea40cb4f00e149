#pragma once

#include <string>
#include <vector>

#include "core/device.h"
#include "dist/comm/communicator.h"

namespace brigade::dist {

/// Runs the ring (ring_all_reduce.h) over `comm` on a small f64 tensor on `device`. Returns lines
/// of text, the same on every rank: for each step, the chunks that every rank sends and receives
/// and the values of its chunks afterwards; between the phases, which rank owns which finished sum.
/// Rank r contributes 10^r, so the digits of a value show which ranks are in it.
///
/// Collective; blocks. No other collective may be in flight.
std::vector<std::string> trace_ring(Communicator& comm, Device device);

}  // namespace brigade::dist
