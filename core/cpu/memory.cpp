#include <cstdlib>
#include <cstring>

#include "core/kernels.h"

namespace brigade {

void* CpuKernels::allocate(int /*device*/, std::size_t bytes, std::size_t alignment) {
  return std::aligned_alloc(alignment, bytes);
}

void CpuKernels::deallocate(int /*device*/, void* block) {
  std::free(block);
}

void CpuKernels::zero(Stream& /*s*/, void* dst, std::size_t bytes) {
  if (bytes > 0) {
    std::memset(dst, 0, bytes);
  }
}

void CpuKernels::copy(Stream& s, void* dst, const void* src, std::size_t bytes) {
  copy_to_host(s, dst, src, bytes);
}

void CpuKernels::copy_from_host(Stream& s, void* dst, const void* src, std::size_t bytes) {
  copy_to_host(s, dst, src, bytes);
}

void CpuKernels::copy_to_host(Stream& /*s*/, void* dst, const void* src, std::size_t bytes) {
  if (bytes > 0) {  // an empty tensor has no address, and memcpy must not be given null
    std::memcpy(dst, src, bytes);
  }
}

}  // namespace brigade
