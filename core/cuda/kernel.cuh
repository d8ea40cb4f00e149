#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/cuda/launch.h"
#include "core/kernels.h"

/// What all kernels of this folder share: the grid-stride loop, the store of a result, and a
/// block's sum.
namespace brigade::cuda {

inline constexpr unsigned kBlock = 256;  // threads per block; a power of two, see block_join()

/// Enough to fill any GPU twice over.
inline constexpr std::int64_t kMaxBlocks = 4096;

/// Kernels may read these, but not call std::numeric_limits, whose functions are the host's.
template <class T>
inline constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();
template <class T>
inline constexpr T kInfinity = std::numeric_limits<T>::infinity();

/// Blocks of kBlock threads for n elements.
inline std::int64_t blocks_for(std::int64_t n) {
  return (n + kBlock - 1) / kBlock;
}

__device__ inline std::int64_t first_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t index_stride() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

/// Launches `kernel` on `s` with `blocks` blocks, at most kMaxBlocks: kernels walk larger arrays in
/// strides of the whole grid. Launches nothing for 0 blocks, because CUDA refuses an empty grid.
template <class... Params, class... Args>
void launch(Stream& s, std::int64_t blocks, void (*kernel)(Params...), Args... args) {
  if (blocks > 0) {
    kernel<<<static_cast<unsigned>(std::min(blocks, kMaxBlocks)), kBlock, 0, stream_of(s)>>>(
        args...);
    CUDA_CHECK(cudaGetLastError());
  }
}

template <class Fn>
__global__ void for_each_kernel(std::int64_t n, Fn fn) {
  for (std::int64_t i = first_index(); i < n; i += index_stride()) {
    fn(i);
  }
}

/// fn(i) for each i < n, on `s`. `fn` is a __device__ lambda that captures by value.
template <class Fn>
void for_each(Stream& s, std::int64_t n, Fn fn) {
  launch(s, blocks_for(n), for_each_kernel<Fn>, n, fn);
}

/// Sixteen bytes, the most that one thread reads or writes at a time.
template <class T>
struct alignas(16) Pack {
  static constexpr std::int64_t kLanes = 16 / sizeof(T);
  T at[kLanes];
};

template <class T>
__device__ Pack<std::remove_const_t<T>> load_pack(T* array, std::int64_t i) {
  return reinterpret_cast<const Pack<std::remove_const_t<T>>*>(array)[i];
}
template <class T>
__device__ void store_pack(T* array, std::int64_t i, const Pack<T>& pack) {
  reinterpret_cast<Pack<T>*>(array)[i] = pack;
}
template <class T>
__device__ void store_pack(const T* /*array*/, std::int64_t /*i*/, const Pack<T>& /*pack*/) {}

template <class Fn, class... T>
__global__ void packed_kernel(std::int64_t n, std::int64_t packs, Fn fn, T*... arrays) {
  constexpr std::int64_t kLanes = std::common_type_t<Pack<std::remove_const_t<T>>...>::kLanes;
  for (std::int64_t i = first_index(); i < packs; i += index_stride()) {
    [&](Pack<std::remove_const_t<T>>... values) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        fn(values.at[lane]...);
      }
      (store_pack(arrays, i, values), ...);
    }(load_pack(arrays, i)...);
  }
  for (std::int64_t i = packs * kLanes + first_index(); i < n; i += index_stride()) {
    fn(arrays[i]...);
  }
}

/// fn(a[i], b[i], ...) for i < n of arrays of one number type, on `s`: what is const is read, the
/// rest read and written, sixteen bytes at a time if all arrays are aligned for it.
template <class Fn, class... T>
void launch_packed(Stream& s, std::int64_t n, Fn fn, T*... arrays) {
  constexpr std::int64_t kLanes = std::common_type_t<Pack<std::remove_const_t<T>>...>::kLanes;
  const bool aligned = ((reinterpret_cast<std::uintptr_t>(arrays) % 16 == 0) && ...);
  const std::int64_t packs = aligned ? n / kLanes : 0;
  const std::int64_t threads = std::max(packs, n - packs * kLanes);
  launch(s, blocks_for(threads), packed_kernel<Fn, T...>, n, packs, fn, arrays...);
}

/// Stores results as a Scale says, in the kernel's own number type: dst = alpha result + beta dst.
/// With beta = 0 the old value has no influence, not even as NaN.
template <class T>
class ScaledStore {
 public:
  explicit ScaledStore(Scale scale)
      : alpha_(static_cast<T>(scale.alpha)), beta_(static_cast<T>(scale.beta)) {}

  __device__ void operator()(T result, T* dst) const {
    *dst = beta_ == T{0} ? alpha_ * result : alpha_ * result + beta_ * *dst;
  }

 private:
  T alpha_, beta_;
};

/// The values of the block's kBlock threads joined by `join`, known to all of them. Always the same
/// tree, hence the same bits.
template <class T, class Join>
__device__ T block_join(T value, Join join) {
  __shared__ T values[kBlock];
  __syncthreads();  // a previous call's readers are done
  values[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kBlock / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      values[threadIdx.x] = join(values[threadIdx.x], values[threadIdx.x + half]);
    }
    __syncthreads();
  }
  return values[0];
}

__device__ inline double block_sum(double value) {
  return block_join(value, [](double a, double b) { return a + b; });
}

}  // namespace brigade::cuda
