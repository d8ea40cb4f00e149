#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tests/cuda_emulator/emulator_private.h"

namespace emulator {
namespace {

constexpr std::size_t kAlignment = 256;  // what cudaMalloc promises

struct Extent {
  std::size_t bytes;
  int gpu;
};

/// One kind of memory: where its blocks begin, and how long they are.
class Blocks {
 public:
  /// Full of NaN: nobody may count on zeros. `most`: of all blocks together.
  cudaError_t allocate(void** block, std::size_t bytes, std::size_t most) {
    const std::lock_guard lock(mutex_);
    if (bytes > most || used_ > most - bytes) {
      return answer(cudaErrorMemoryAllocation);
    }
    *block = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
    if (*block == nullptr) {
      return answer(cudaErrorMemoryAllocation);
    }
    std::memset(*block, 0xff, bytes);
    used_ += bytes;
    blocks_[reinterpret_cast<std::uintptr_t>(*block)] = {bytes, current_gpu()};
    return cudaSuccess;
  }

  cudaError_t free(void* block) {
    if (block == nullptr) {
      return cudaSuccess;
    }
    drain_all_streams();
    {
      const std::lock_guard lock(mutex_);
      const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(block));
      if (found == blocks_.end()) {
        return refuse(cudaErrorInvalidValue, "frees what has not been allocated");
      }
      used_ -= found->second.bytes;
      blocks_.erase(found);
    }
    std::free(block);
    return cudaSuccess;
  }

  std::size_t used() const {
    const std::lock_guard lock(mutex_);
    return used_;
  }

  /// The block that [memory, memory + bytes) lies in.
  std::optional<Extent> find(const void* memory, std::size_t bytes) const {
    const std::lock_guard lock(mutex_);
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    const auto above = blocks_.upper_bound(begin);
    if (above == blocks_.begin()) {
      return std::nullopt;
    }
    const auto& [first, block] = *std::prev(above);
    return begin + bytes <= first + block.bytes ? std::optional(block) : std::nullopt;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, Extent> blocks_;
  std::size_t used_ = 0;
};

Blocks& gpu_memory() {
  static auto* blocks = new Blocks;  // never destroyed: streams outlive main()
  return *blocks;
}
std::size_t gpu_bytes() {
  constexpr int kMiB = 1 << 20;
  return static_cast<std::size_t>(setting("EMULATOR_GPU_MIB", kMiB)) * kMiB;
}
Blocks& pinned_memory() {
  static auto* blocks = new Blocks;
  return *blocks;
}

cudaMemcpyKind kind_of(bool to_gpu, bool from_gpu) {
  if (to_gpu) {
    return from_gpu ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
  }
  return from_gpu ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

}  // namespace

bool on_gpu(const void* begin, std::size_t bytes) {
  return gpu_memory().find(begin, bytes).has_value();
}
bool on_gpu(const void* begin, std::size_t bytes, int gpu) {
  const std::optional<Extent> block = gpu_memory().find(begin, bytes);
  return block && block->gpu == gpu;
}
bool pinned(const void* begin) {
  return pinned_memory().find(begin, 1).has_value();
}

}  // namespace emulator

using emulator::refuse;

extern "C" {

cudaError_t cudaMalloc(void** block, size_t bytes) {
  return emulator::gpu_memory().allocate(block, bytes, emulator::gpu_bytes());
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = emulator::gpu_bytes();
  *free = *total - emulator::gpu_memory().used();
  return cudaSuccess;
}
cudaError_t cudaFree(void* block) {
  return emulator::gpu_memory().free(block);
}
cudaError_t cudaHostAlloc(void** block, size_t bytes, unsigned /*flags*/) {
  return emulator::pinned_memory().allocate(block, bytes, SIZE_MAX);
}
cudaError_t cudaFreeHost(void* block) {
  return emulator::pinned_memory().free(block);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  *attributes = {};
  attributes->type = emulator::on_gpu(memory, 1) ? cudaMemoryTypeDevice
                     : emulator::pinned(memory)  ? cudaMemoryTypeHost
                                                 : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int byte, size_t bytes, cudaStream_t stream) {
  if (!emulator::on_gpu(memory, bytes)) {
    return refuse(cudaErrorInvalidValue, "cudaMemsetAsync outside the GPU's memory");
  }
  emulator::submit(stream, [=] { std::memset(memory, byte, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const bool to_gpu = emulator::on_gpu(to, bytes);
  const bool from_gpu = emulator::on_gpu(from, bytes);
  if (emulator::on_gpu(to, 1) != to_gpu || emulator::on_gpu(from, 1) != from_gpu) {
    return refuse(cudaErrorInvalidValue, "cudaMemcpyAsync goes beyond an allocation");
  }
  const cudaMemcpyKind actual = emulator::kind_of(to_gpu, from_gpu);
  if (kind != cudaMemcpyDefault && kind != actual) {
    return refuse(cudaErrorInvalidValue, "cudaMemcpyAsync: its kind is not that of the addresses");
  }
  if (actual == cudaMemcpyHostToDevice && !emulator::pinned(from)) {  // staged, as CUDA does
    const auto* begin = static_cast<const char*>(from);
    const auto copy = std::make_shared<const std::vector<char>>(begin, begin + bytes);
    emulator::submit(stream, [=] { std::memcpy(to, copy->data(), bytes); });
  } else {
    emulator::submit(stream, [=] { std::memcpy(to, from, bytes); });
  }
  return cudaSuccess;
}

}  // extern "C"
