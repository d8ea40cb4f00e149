#pragma once

#include <memory>

#include "core/device.h"
#include "dist/comm/communicator.h"

namespace brigade::dist {

/// Makes a communicator that exchanges GPU tensors through NCCL. `control`, the MPI communicator of
/// the same ranks, distributes NCCL's id and serves barrier, all_gather and broadcast. Collective.
///
/// `shared_gpu`: at least two ranks use one GPU. NCCL rejects this by default, so each rank poses
/// as a separate host and gradients pass through sockets: correct and slow, for tests and teaching.
/// Must be equal on all ranks, and set before this process makes its first NCCL call.
///
/// Errors: no NCCL in this build (UsageError); NCCL's own; no answer of other ranks within 60 s.
std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> control,
                                                     Device device, bool shared_gpu);

}  // namespace brigade::dist
