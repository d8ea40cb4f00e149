#pragma once

#include <functional>
#include <memory>

#include "core/device.h"
#include "dist/communicator.h"

namespace brigade::dist {

/// Ranks that exchange GPU tensors through the host's memory, where there is no NCCL: on the
/// communication stream each tensor is copied to the host, summed there, and copied back. Only in
/// builds with CUDA.
///
/// `host` serves barrier, all_gather and broadcast. `host_sum` sums a CPU tensor over the ranks,
/// blocking, in place; it is called on a thread of the CUDA runtime, one call after the other, must
/// not call CUDA, and must not use the channel of `host`'s own all_reduce in flight. It may refer
/// to `host`, which lives as long as the communicator.
std::unique_ptr<Communicator> make_staged_communicator(std::unique_ptr<Communicator> host,
                                                       Device device,
                                                       std::function<void(const Tensor&)> host_sum);

}  // namespace brigade::dist
