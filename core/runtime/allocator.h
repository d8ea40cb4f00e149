#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "core/device.h"

namespace brigade {

/// What an allocator has done so far, in bytes and calls.
struct MemoryStats {
  /// Calls of aligned_alloc, mmap or cudaMalloc: 0 more of them in a steady step.
  std::uint64_t system_allocations = 0;
  std::size_t in_use = 0;  ///< held by live tensors
  std::size_t peak_in_use = 0;
  std::size_t reserved = 0;      ///< obtained from the system: in_use plus what waits for reuse
  std::uint64_t zero_fills = 0;  ///< Tensor::zero and Tensor::zeros: none in a steady step either
};

/// Memory of one device that is kept and reused instead of being given back.
///
/// A training step asks for the same sizes in the same order again and again, so blocks are kept in
/// one free list per rounded size and a block is only ever reused whole. Where sizes change for
/// ever, as those of generated text do, nobody asks for the old ones again. So when a new size is
/// asked for and more than twice the peak (and kFew) waits for reuse, all of that goes back to the
/// system.
///
/// On a GPU a freed block may still be in use by kernels in flight: reuse is safe because tensors
/// are written by the one compute stream of this rank, in order; what another stream uses (gradient
/// buckets, operators under a UseStream) is only freed after the compute stream was ordered behind
/// it. Thread-safe.
class CachingAllocator {
 public:
  static constexpr std::size_t kAlignment = 256;
  static constexpr std::size_t kFew = std::size_t{64} << 20U;

  explicit CachingAllocator(Device device) : device_(device) {}
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// At least `bytes`, aligned to kAlignment; null for 0. Throws Error when the device is out of
  /// memory.
  void* allocate(std::size_t bytes);
  void release(void* block, std::size_t bytes) noexcept;

  /// Gives what waits for reuse back to the system: between two
  /// phases whose sizes differ.
  void trim();

  /// Of each size at most so many bytes wait for reuse, and further blocks go back to the system
  /// when they are released. Less memory, but the system clears what it hands out again.
  void set_spares(std::size_t most_bytes);

  /// From now on peak_in_use is the peak since this call.
  void reset_peak();

  /// A tensor of this device has been filled with zeros.
  void note_zero_fill();

  Device device() const { return device_; }
  MemoryStats stats() const;

 private:
  static std::size_t rounded(std::size_t bytes);
  void* obtain(std::size_t size) const;
  void give_back(void* block, std::size_t size) noexcept;
  void give_back_unused() noexcept;

  Device device_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;
  MemoryStats stats_;
  std::size_t most_spare_bytes_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace brigade
