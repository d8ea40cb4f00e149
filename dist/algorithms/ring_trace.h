#pragma once

#include <string>
#include <vector>

#include "core/device.h"
#include "dist/comm/communicator.h"

namespace brigade::dist {

/// Runs the ring (ring_all_reduce.h) over `comm` on a small f64 tensor on `device` and tells what
/// happened, as lines of text, the same on every rank: in each step, which chunk every rank sends
/// and receives and what its chunks are worth afterwards, and who owns which finished sum between
/// the phases. Rank r contributes 10^r, so the digits of a value tell whose numbers are in it.
///
/// Collective and blocking, not while other collectives are in flight.
std::vector<std::string> trace_ring(Communicator& comm, Device device);

}  // namespace brigade::dist
