#include "core/pinned.h"

#include <algorithm>

#include "core/cuda/cuda_check.h"

namespace brigade {

Tensor empty_pinned(const Shape& shape, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  void* memory = nullptr;
  // Portable: pinned for every GPU, not only the one that happens to be current.
  CUDA_CHECK(cudaHostAlloc(&memory, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable));
  const std::shared_ptr<void> owner(memory,
                                    [](void* pinned) { static_cast<void>(cudaFreeHost(pinned)); });
  return Tensor::over(owner, static_cast<std::byte*>(memory), shape, dtype);
}

}  // namespace brigade
