#pragma once

#include <memory>

#include "dist/algorithms/all_reduce.h"

namespace brigade::dist {

/// MPI_Allreduce as everybody calls it: what the others are measured against. It waits by spinning,
/// on the very core that is to compute meanwhile, so it is no use for training (MpiCommunicator).
/// Over all ranks of MPI_COMM_WORLD; f32 or f64 on the CPU. Collective.
std::unique_ptr<AllReduce> make_blocking_mpi_all_reduce();

}  // namespace brigade::dist
