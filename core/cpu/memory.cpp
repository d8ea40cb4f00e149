#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "core/kernels.h"
#include "core/runtime/allocator.h"

namespace brigade {
namespace {

/// From this size on a block is mapped by itself and goes back to the system when it is given back.
/// malloc would put most of them into a heap full of holes, because it raises its own limit for
/// that with every block it has seen freed: the parameters that move into buckets are such blocks,
/// and the holes were 7.5 of 36.5 MiB with 40 layers of 256 x 256.
constexpr std::size_t kMapped = 128 << 10;
/// Larger blocks ask for pages of this size, and smaller ones get all their pages at once. Either
/// saves page faults. In a virtual machine on an AMD EPYC the fault of a page of 4 KiB took as long
/// as writing 60 KiB.
constexpr std::size_t kHugePage = 2 << 20;

}  // namespace

void* CpuKernels::allocate(int /*device*/, std::size_t bytes) {
  if (bytes < kMapped) {
    return std::aligned_alloc(CachingAllocator::kAlignment, bytes);
  }
  const int at_once = bytes < kHugePage ? MAP_POPULATE : 0;
  void* block =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | at_once, -1, 0);
  if (block == MAP_FAILED) {
    return nullptr;
  }
  if (bytes >= kHugePage) {
    static_cast<void>(madvise(block, bytes, MADV_HUGEPAGE));
  }
  return block;
}

void CpuKernels::deallocate(int /*device*/, void* block, std::size_t bytes) {
  if (bytes < kMapped) {
    std::free(block);
  } else {
    static_cast<void>(munmap(block, bytes));
  }
}

// Whole pages inside the stretch; in a small one there is nothing worth a system call.
void CpuKernels::discard(void* dst, std::size_t bytes) {
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::size_t before = (page - reinterpret_cast<std::uintptr_t>(dst) % page) % page;
  if (bytes >= kMapped) {
    static_cast<void>(madvise(static_cast<std::byte*>(dst) + before, (bytes - before) / page * page,
                              MADV_DONTNEED));
  }
}

void CpuKernels::zero(Stream& /*s*/, void* dst, std::size_t bytes) {
  if (bytes > 0) {
    std::memset(dst, 0, bytes);
  }
}

void CpuKernels::copy(Stream& s, void* dst, const void* src, std::size_t bytes) {
  copy_to_host(s, dst, src, bytes);
}

void CpuKernels::copy_to_host(Stream& /*s*/, void* dst, const void* src, std::size_t bytes) {
  if (bytes > 0) {  // an empty tensor has no address, and memcpy must not be given null
    std::memcpy(dst, src, bytes);
  }
}

}  // namespace brigade
