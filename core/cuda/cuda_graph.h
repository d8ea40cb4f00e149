#pragma once

#include "core/runtime/recording.h"

namespace brigade {

/// record() on a GPU: captures what `work` enqueues into a CUDA graph, and launches that once.
std::unique_ptr<Recording> record_cuda_graph(Device device, const std::function<void()>& work);

}  // namespace brigade
