#pragma once

#include <memory>

#include "dist/algorithms/all_reduce.h"

namespace brigade::apps {

/// MPI_Allreduce on MPI_COMM_WORLD, for comparison: f32 or f64 in CPU memory.
///
/// Do not train with it. While it waits it spins on the core that should compute; MpiCommunicator
/// uses the nonblocking call and sleeps instead.
std::unique_ptr<dist::AllReduce> make_blocking_mpi_all_reduce();

}  // namespace brigade::apps
