#pragma once

// Included before everything else in a .cu file that is compiled as C++.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>  // NOLINT(modernize-deprecated-headers): a kernel's exp() and sqrt() are global

#include <functional>

/// What nvcc knows by itself.
namespace emulator {

extern thread_local uint3 thread_index;
extern thread_local uint3 block_index;
extern thread_local dim3 block_size;
extern thread_local dim3 grid_size;

/// Returns when all threads of the block have called it.
void synchronize_block();

/// Runs `thread` once per thread of the grid, in the order of `stream`.
void launch(const char* name, dim3 grid, dim3 block, cudaStream_t stream,
            std::function<void()> thread);

struct Launch {
  Launch(const char* name, dim3 grid, dim3 block, std::size_t /*shared_bytes*/, cudaStream_t stream)
      : name_(name), grid_(grid), block_(block), stream_(stream) {}

  /// Arguments are taken by value now, as a kernel's are.
  template <class Kernel, class... Args>
  void of(Kernel kernel, Args... args) {
    launch(name_, grid_, block_, stream_, [=] { kernel(args...); });
  }

 private:
  const char* name_;
  dim3 grid_, block_;
  cudaStream_t stream_;
};

}  // namespace emulator

#undef __global__
#undef __device__
#undef __shared__
#define __global__
#define __device__
#define __shared__ static thread_local  // a thread executes one block at a time
#define threadIdx (emulator::thread_index)
#define blockIdx (emulator::block_index)
#define blockDim (emulator::block_size)
#define gridDim (emulator::grid_size)
#define __syncthreads() emulator::synchronize_block()

inline unsigned long long atomicAdd(unsigned long long* to, unsigned long long value) {
  return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}
