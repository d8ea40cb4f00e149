#pragma once

#include <cstdint>
#include <functional>

#include "dist/comm/thread_communicator.h"

namespace brigade::test {

/// Runs fn(communicator) on `ranks` threads, each a rank of one group, and joins them. Rethrows the
/// first exception; the others are released from whatever collective they were in.
void thread_world(int ranks, const std::function<void(dist::Communicator&)>& fn);

/// The same with ranks whose data goes through TCP sockets.
void socket_world(int ranks, const std::function<void(dist::Communicator&)>& fn);

/// Collective.
std::uint64_t sum_over_ranks(dist::Communicator& comm, std::uint64_t mine);

}  // namespace brigade::test
