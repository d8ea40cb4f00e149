#include "core/runtime/allocator.h"

#include <algorithm>

#include "core/dispatch.h"

namespace brigade {

CachingAllocator::~CachingAllocator() {
  give_back_unused();
}

// Sizes are rounded before they are compared, so that a bias of 10 elements can reuse one of 12.
std::size_t CachingAllocator::rounded(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void* CachingAllocator::allocate(std::size_t bytes) {
  if (bytes == 0) {
    return nullptr;
  }
  const std::size_t size = rounded(bytes);
  const std::lock_guard lock(mutex_);
  std::vector<void*>& blocks = free_[size];
  void* block = nullptr;
  if (blocks.empty()) {
    // What is kept for reuse has other sizes. It goes back if there is too much of it, or if memory
    // is short: the system can join blocks.
    const bool too_many = stats_.reserved - stats_.in_use > std::max(2 * stats_.peak_in_use, kFew);
    block = too_many ? nullptr : obtain(size);
    if (block == nullptr) {
      give_back_unused();
      block = obtain(size);
    }
    if (block == nullptr) {
      throw Error(
          fmt::format("allocator: {} is out of memory: asked for {} bytes, {} in use; use a "
                      "smaller model, batch or data set",
                      device_, size, stats_.in_use));
    }
    ++stats_.system_allocations;
    stats_.reserved += size;
  } else {
    block = blocks.back();
    blocks.pop_back();
  }
  stats_.in_use += size;
  stats_.peak_in_use = std::max(stats_.peak_in_use, stats_.in_use);
  return block;
}

void* CachingAllocator::obtain(std::size_t size) const {
  return dispatch(device_, [&]<class K>(K) { return K::allocate(device_.index, size); });
}

void CachingAllocator::give_back(void* block, std::size_t size) noexcept {
  dispatch(device_, [&]<class K>(K) { K::deallocate(device_.index, block, size); });
  stats_.reserved -= size;
}

void CachingAllocator::give_back_unused() noexcept {
  for (auto& [size, blocks] : free_) {
    for (void* block : blocks) {
      give_back(block, size);
    }
    blocks.clear();
  }
}

// Kept up to most_spare_bytes_: the next step asks for this size again, and on a GPU cudaFree would
// wait for everything in flight.
void CachingAllocator::release(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) {
    return;
  }
  const std::size_t size = rounded(bytes);
  const std::lock_guard lock(mutex_);
  stats_.in_use -= size;
  std::vector<void*>& spares = free_[size];
  if ((spares.size() + 1) * size <= most_spare_bytes_) {
    spares.push_back(block);
  } else {
    give_back(block, size);
  }
}

void CachingAllocator::trim() {
  const std::lock_guard lock(mutex_);
  give_back_unused();
}

void CachingAllocator::set_spares(std::size_t most_bytes) {
  const std::lock_guard lock(mutex_);
  most_spare_bytes_ = most_bytes;
}

void CachingAllocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak_in_use = stats_.in_use;
}

void CachingAllocator::note_zero_fill() {
  const std::lock_guard lock(mutex_);
  ++stats_.zero_fills;
}

MemoryStats CachingAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace brigade
