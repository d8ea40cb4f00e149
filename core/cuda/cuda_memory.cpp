#include "core/cuda/cuda_check.h"
#include "core/cuda/launch.h"
#include "core/kernels.h"
#include "core/runtime/trace.h"

namespace brigade {

namespace {

cudaMemoryType type_of(const void* memory) {
  cudaPointerAttributes attributes{};
  CUDA_CHECK(cudaPointerGetAttributes(&attributes, memory));
  return attributes.type;
}

/// Whether a copy out of `src` may still read it when cudaMemcpyAsync has returned, though it is
/// not pinned: where the GPU can read pageable memory by itself (HMM, Grace Hopper).
bool may_be_read_later(Device device, const void* src) {
  int reads_host_pages = 0;
  CUDA_CHECK(
      cudaDeviceGetAttribute(&reads_host_pages, cudaDevAttrPageableMemoryAccess, device.index));
  return reads_host_pages != 0 && type_of(src) == cudaMemoryTypeUnregistered;
}

}  // namespace

void* CudaKernels::allocate(int device, std::size_t bytes) {
  CUDA_CHECK(cudaSetDevice(device));
  void* block = nullptr;  // aligned to 256 bytes, as cudaMalloc promises
  const cudaError_t status = cudaMalloc(&block, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    return nullptr;  // the allocator knows how much is in use and says it
  }
  CUDA_CHECK(status);
  return block;
}

void CudaKernels::deallocate(int device, void* block, std::size_t /*bytes*/) {
  // Runs in destructors, at exit possibly after the driver has gone: nothing here may throw.
  if (cudaSetDevice(device) == cudaSuccess) {
    static_cast<void>(cudaFree(block));
  }
}

void CudaKernels::zero(Stream& s, void* dst, std::size_t bytes) {
  if (bytes > 0) {
    CUDA_CHECK(cudaMemsetAsync(dst, 0, bytes, cuda::stream_of(s)));
  }
}

/// `src` may be reused or freed at once, unless it is pinned (empty_pinned): from pageable memory
/// cudaMemcpyAsync returns only after it has copied the bytes to a staging buffer of its own.
/// Where the GPU can read pageable memory by itself (may_be_read_later), the copy is waited for.
void CudaKernels::copy(Stream& s, void* dst, const void* src, std::size_t bytes) {
  if (bytes == 0) {
    return;
  }
  const ScopeName scope(kDeviceWait);  // from pageable memory the copy itself may wait
  cudaStream_t stream = cuda::stream_of(s);
  CUDA_CHECK(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream));
  if (may_be_read_later(s.device(), src)) {
    CUDA_CHECK(cudaStreamSynchronize(stream));
  }
}

void CudaKernels::copy_to_host(Stream& s, void* dst, const void* src, std::size_t bytes) {
  if (bytes == 0) {
    return;
  }
  const ScopeName scope(kDeviceWait);  // to pageable memory the copy itself waits, too
  cudaStream_t stream = cuda::stream_of(s);
  CUDA_CHECK(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, stream));
  if (type_of(dst) != cudaMemoryTypeHost) {
    CUDA_CHECK(cudaStreamSynchronize(stream));
  }
}

}  // namespace brigade
