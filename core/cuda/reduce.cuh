#pragma once

#include <cstddef>

#include "core/cuda/kernel.cuh"
#include "core/runtime/context.h"
#include "core/storage.h"

/// Means over many numbers, for the losses. They are summed in two launches, blocks first and then
/// one block over the blocks' sums, in an order that depends on the size alone: atomics would be as
/// fast and give other bits every time.
namespace brigade::cuda {

inline constexpr std::int64_t kMaxPartials = 1024;

/// Device memory for the partial sums. It goes back to the allocator while the kernels still use
/// it, which is safe for the reason given in core/runtime/allocator.h: whoever gets it next comes later on
/// the same stream. So not for operators under a UseStream.
template <class T = double>
class Partials {
 public:
  Partials(const Stream& s, std::int64_t count)
      : storage_(Context::current().allocator(s.device()),
                 static_cast<std::size_t>(count) * sizeof(T)) {}
  T* data() const { return reinterpret_cast<T*>(storage_.data()); }

 private:
  Storage storage_;
};

/// result = (Σ partials) / divisor, by one block
template <class T>
__global__ void mean_kernel(std::int64_t count, const double* partials, double divisor, T* result) {
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < count; i += kBlock) {
    sum += partials[i];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    *result = static_cast<T>(sum / divisor);
  }
}

template <class T>
void mean(Stream& s, std::int64_t count, const double* partials, std::int64_t divisor, T* result) {
  mean_kernel<<<1, kBlock, 0, stream_of(s)>>>(count, partials, static_cast<double>(divisor),
                                              result);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace brigade::cuda
