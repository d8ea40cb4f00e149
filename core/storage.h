#pragma once

#include <cstddef>
#include <memory>

#include "core/allocator.h"

namespace brigade {

/// A block of memory on one device, owned. Tensors share it; the last one gives it back to its
/// allocator.
class Storage {
 public:
  Storage(std::shared_ptr<CachingAllocator> allocator, std::size_t bytes)
      : allocator_(std::move(allocator)), data_(allocator_->allocate(bytes)), bytes_(bytes) {}
  ~Storage() { allocator_->release(data_, bytes_); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return allocator_->device(); }

 private:
  std::shared_ptr<CachingAllocator> allocator_;
  void* data_;
  std::size_t bytes_;
};

}  // namespace brigade
