#include "core/cuda/kernel.cuh"
#include "core/cuda/philox.cuh"
#include "core/random.h"

namespace brigade {
namespace {

__device__ float fused(float unit, float range, float low) {
  return fmaf(unit, range, low);
}
__device__ double fused(double unit, double range, double low) {
  return fma(unit, range, low);
}

/// One thread computes one Philox block and writes its four words: element i is word i % 4 of block
/// i / 4, the numbering of core/random.h. fma and the conversions are exactly rounded, so the CPU
/// gets the same bits.
template <class T>
__global__ void uniform_kernel(std::int64_t blocks, std::int64_t n, std::uint64_t seed,
                               std::uint32_t sequence, T range, T low, T* x) {
  for (std::int64_t block = cuda::first_index(); block < blocks; block += cuda::index_stride()) {
    const cuda::Philox::ctr_type words = cuda::philox_block(seed, sequence, block);
    for (int word = 0; word < 4 && 4 * block + word < n; ++word) {
      const float unit =
          static_cast<float>(words[static_cast<unsigned>(word)] >> 8U) * 0x1p-24F;  // unit_float()
      x[4 * block + word] = fused(static_cast<T>(unit), range, low);
    }
  }
}

}  // namespace

template <class T>
void CudaKernels::uniform(Stream& s, std::int64_t n, UniformArgs args, T* x) {
  const T low = static_cast<T>(args.low);
  const T range = static_cast<T>(args.high) - low;
  cuda::launch(s, uniform_kernel<T>, (n + 3) / 4, n, args.seed, args.sequence, range, low, x);
}

template void CudaKernels::uniform(Stream&, std::int64_t, UniformArgs, float*);
template void CudaKernels::uniform(Stream&, std::int64_t, UniformArgs, double*);

}  // namespace brigade
