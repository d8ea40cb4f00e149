#pragma once

#include <memory>

#include "core/device.h"
#include "dist/comm/communicator.h"

namespace brigade::dist {

/// Ranks that exchange GPU tensors through the host's memory, where there is no NCCL: on the
/// communication stream each tensor is copied to the host, summed there, and copied back. Only in
/// builds with CUDA.
///
/// `host` serves barrier, all_gather and broadcast. Its host_collectives() sum and exchange: they
/// block a thread of the CUDA runtime, one call at a time, and must not call CUDA.
std::unique_ptr<Communicator> make_staged_communicator(std::unique_ptr<Communicator> host,
                                                       Device device);

}  // namespace brigade::dist
