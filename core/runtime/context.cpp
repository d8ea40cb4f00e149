#include "core/runtime/context.h"

#include <utility>

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
  entry.in_use = entry.stream.get();
  entry.lasting = std::make_shared<CachingAllocator>(device);
  entry.allocator = entry.lasting;
  return entry;
}

Stream& Context::compute_stream(Device device) {
  return *at(device).in_use;
}

const std::shared_ptr<CachingAllocator>& Context::allocator(Device device) {
  return at(device).allocator;
}

std::shared_ptr<CachingAllocator> Context::make_reserved_memory(Device device) {
  auto memory = std::make_shared<CachingAllocator>(device, CachingAllocator::Shortage::fail);
  at(device).reserved.push_back(memory);
  return memory;
}

MemoryStats Context::memory_stats(Device device) {
  PerDevice& place = at(device);
  std::erase_if(place.reserved, [](const auto& memory) { return memory.expired(); });
  MemoryStats sum = place.lasting->stats();
  for (const auto& memory : place.reserved) {
    const MemoryStats reserved = memory.lock()->stats();
    sum.system_allocations += reserved.system_allocations;
    sum.in_use += reserved.in_use;
    sum.peak_in_use += reserved.peak_in_use;
    sum.reserved += reserved.reserved;
    sum.zero_fills += reserved.zero_fills;
  }
  return sum;
}

UseReservedMemory::UseReservedMemory(std::shared_ptr<CachingAllocator> memory)
    : memory_(std::move(memory)) {
  Context::PerDevice& place = Context::current().at(memory_->device());
  BRIGADE_CHECK(place.allocator == place.lasting,
                "UseReservedMemory: expected none around it, but one is in use");
  place.allocator = memory_;
}

UseReservedMemory::~UseReservedMemory() {
  Context::PerDevice& place = Context::current().at(memory_->device());
  place.allocator = place.lasting;
}

UseLastingMemory::UseLastingMemory(Device device) : device_(device) {
  Context::PerDevice& place = Context::current().at(device_);
  before_ = std::exchange(place.allocator, place.lasting);
}

UseLastingMemory::~UseLastingMemory() {
  Context::current().at(device_).allocator = std::move(before_);
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
