#pragma once

#include <memory>

#include "core/device.h"
#include "dist/comm/communicator.h"

namespace brigade::dist {

/// Makes a communicator that exchanges GPU tensors through host memory, for systems without NCCL.
/// On the communication stream it copies each tensor to the host, sums it there, and copies it
/// back. Only in builds with CUDA.
///
/// `host` serves barrier, all_gather and broadcast. Its host_collectives() sum and exchange: they
/// block a thread of the CUDA runtime, one call at a time, and must not call CUDA.
std::unique_ptr<Communicator> make_staged_communicator(std::unique_ptr<Communicator> host,
                                                       Device device);

}  // namespace brigade::dist
