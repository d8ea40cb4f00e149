#pragma once

#include <memory>

#include "core/runtime/stream.h"

namespace brigade {

/// A new non-blocking CUDA stream on `device` (never the legacy stream: that one is a barrier for
/// all others).
std::unique_ptr<Stream> make_cuda_stream(Device device, StreamPriority priority);

}  // namespace brigade
