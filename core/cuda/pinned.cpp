#include "core/runtime/pinned.h"

#include <algorithm>

#include "core/cuda/cuda_check.h"

namespace brigade {

Tensor empty_pinned(const Shape& shape, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  void* memory = nullptr;
  // Portable: pinned for every GPU, not only the one that happens to be current.
  const cudaError_t status =
      cudaHostAlloc(&memory, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw Error(
        fmt::format("pinned memory: asked for {} bytes, which this host has not left; use smaller "
                    "batches or buckets",
                    bytes));
  }
  CUDA_CHECK(status);
  const std::shared_ptr<void> owner(memory,
                                    [](void* pinned) { static_cast<void>(cudaFreeHost(pinned)); });
  return Tensor::over(owner, static_cast<std::byte*>(memory), shape, dtype);
}

}  // namespace brigade
