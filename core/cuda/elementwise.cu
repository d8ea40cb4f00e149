#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "core/cuda/kernel.cuh"

namespace brigade {
namespace {

// The hardware's conversions: they round as core/half.h does.
__device__ void store_narrow(float x, Half* y) {
  y->bits = __half_as_ushort(__float2half_rn(x));
}
__device__ void store_narrow(float x, BFloat16* y) {
  y->bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
__device__ float widened(Half x) {
  return __half2float(__ushort_as_half(x.bits));
}
__device__ float widened(BFloat16 x) {
  return __bfloat162float(__ushort_as_bfloat16(x.bits));
}

}  // namespace

template <class T>
void CudaKernels::fill(Stream& s, std::int64_t n, T value, T* x) {
  cuda::for_each(s, n, [=] __device__(std::int64_t i) { x[i] = value; });
}

template <class T>
void CudaKernels::axpby(Stream& s, std::int64_t n, const T* x, Scale scale, T* y) {
  const cuda::ScaledStore<T> store(scale);
  cuda::for_each(s, n, [=] __device__(std::int64_t i) { store(x[i], &y[i]); });
}

template <class Narrow>
void CudaKernels::narrow(Stream& s, std::int64_t n, const float* x, Narrow* y) {
  cuda::for_each(s, n, [=] __device__(std::int64_t i) { store_narrow(x[i], &y[i]); });
}

template <class Narrow>
void CudaKernels::widen(Stream& s, std::int64_t n, const Narrow* x, Scale scale, float* y) {
  const cuda::ScaledStore<float> store(scale);
  cuda::for_each(s, n, [=] __device__(std::int64_t i) { store(widened(x[i]), &y[i]); });
}

template decltype(CudaKernels::fill<float>) CudaKernels::fill<float>;
template decltype(CudaKernels::fill<double>) CudaKernels::fill<double>;
template decltype(CudaKernels::axpby<float>) CudaKernels::axpby<float>;
template decltype(CudaKernels::axpby<double>) CudaKernels::axpby<double>;
template decltype(CudaKernels::narrow<Half>) CudaKernels::narrow<Half>;
template decltype(CudaKernels::narrow<BFloat16>) CudaKernels::narrow<BFloat16>;
template decltype(CudaKernels::widen<Half>) CudaKernels::widen<Half>;
template decltype(CudaKernels::widen<BFloat16>) CudaKernels::widen<BFloat16>;

}  // namespace brigade
