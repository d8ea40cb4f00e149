#include "core/runtime/context.h"

#include <utility>
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
  if (device.is_cuda()) {
    entry.stream = make_side_stream(device, "compute");
  } else {
    entry.stream = std::make_unique<InlineStream>();
  }
  entry.in_use = entry.stream.get();
  entry.allocator = std::make_shared<CachingAllocator>(device);
  return entry;
}

Stream& Context::compute_stream(Device device) {
  return *at(device).in_use;
}

const std::shared_ptr<CachingAllocator>& Context::allocator(Device device) {
  return at(device).allocator;
}

UseStream::UseStream(Stream& stream)
    : device_(stream.device()),
      before_(std::exchange(Context::current().at(device_).in_use, &stream)) {}

UseStream::~UseStream() {
  Context::current().at(device_).in_use = before_;
}

Stream& compute_stream(Device device) {
  return Context::current().compute_stream(device);
}

}  // namespace brigade
