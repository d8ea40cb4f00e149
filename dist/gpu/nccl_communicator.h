#pragma once

#include <memory>

#include "core/device.h"
#include "dist/comm/communicator.h"

namespace brigade::dist {

/// Ranks that exchange GPU tensors through NCCL. Collective over `control`, the MPI communicator of
/// the same ranks: it introduces them to each other and serves barrier, all_gather and broadcast
/// from then on.
///
/// `shared_gpu`: at least two ranks use one GPU, which NCCL refuses unless told otherwise: before
/// 2.30 each rank then pretends to be a host of its own and gradients travel through sockets. Right
/// results, slow, good for tests and teaching. Must be the same on all ranks, and known before this
/// process makes its first NCCL call.
///
/// Errors: no NCCL in this build (UsageError); NCCL's own, or no answer of the other ranks within
/// 60 s.
std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> control,
                                                     Device device, bool shared_gpu);

}  // namespace brigade::dist
