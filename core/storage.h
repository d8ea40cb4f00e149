#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "core/runtime/allocator.h"

namespace brigade {

/// A block of memory on one device. Tensors share it; the last one gives it back: to its allocator,
/// or by letting go of whoever else owns it.
class Storage {
 public:
  Storage(std::shared_ptr<CachingAllocator> allocator, std::size_t bytes)
      : allocator_(std::move(allocator)), data_(allocator_->allocate(bytes)), bytes_(bytes) {}

  /// Memory of another owner, such as a mapping that several processes share. `data` must stay
  /// valid for as long as `owner` is held. Not part of any MemoryStats.
  Storage(std::shared_ptr<const void> owner, std::byte* data, std::size_t bytes, Device device)
      : owner_(std::move(owner)), device_(device), data_(data), bytes_(bytes) {}

  ~Storage() {
    if (allocator_) {
      allocator_->release(data_, bytes_);
    }
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }
  bool in_memory_stats() const { return allocator_ != nullptr; }
  Device device() const { return allocator_ ? allocator_->device() : device_; }

 private:
  std::shared_ptr<CachingAllocator> allocator_;  // one of these two is null
  std::shared_ptr<const void> owner_;
  Device device_ = kCpu;  // of the owner's memory
  void* data_;
  std::size_t bytes_;
};

}  // namespace brigade
