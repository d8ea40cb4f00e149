#include "core/context.h"

#include "core/config.h"
#include "core/cuda/cuda_stream.h"
#include "core/error.h"

namespace brigade {

Context& Context::current() {
  thread_local Context context;
  return context;
}

Context::PerDevice& Context::at(Device device) {
  PerDevice& entry = device.is_cuda() ? gpus_[device.index] : cpu_;
  if (entry.stream) {
    return entry;
  }
  if constexpr (kHasCuda) {
    if (device.is_cuda()) {
      entry.stream = make_cuda_stream(device, StreamPriority::normal);
    }
  }
  if (!device.is_cuda()) {
    entry.stream = std::make_unique<InlineStream>();
  }
  BRIGADE_CHECK(entry.stream, "context: ", device, " asked of a build without CUDA");
  entry.allocator = std::make_shared<CachingAllocator>(device);
  return entry;
}

Stream& Context::compute_stream(Device device) {
  return *at(device).stream;
}

const std::shared_ptr<CachingAllocator>& Context::allocator(Device device) {
  return at(device).allocator;
}

Stream& compute_stream(Device device) {
  return Context::current().compute_stream(device);
}

}  // namespace brigade
