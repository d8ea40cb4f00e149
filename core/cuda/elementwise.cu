#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "core/cuda/kernel.cuh"

namespace brigade {
namespace {

using cuda::first_index;
using cuda::index_stride;
using cuda::launch;
using cuda::put;
using cuda::TypedScale;

template <class T>
__global__ void fill_kernel(std::int64_t n, T value, T* x) {
  for (std::int64_t i = first_index(); i < n; i += index_stride()) {
    x[i] = value;
  }
}

template <class T>
__global__ void axpby_kernel(std::int64_t n, const T* x, TypedScale<T> scale, T* y) {
  for (std::int64_t i = first_index(); i < n; i += index_stride()) {
    put(x[i], scale, &y[i]);
  }
}

// The hardware's conversions: they round as core/half.h does.
__device__ void store(float x, Half* y) {
  y->bits = __half_as_ushort(__float2half_rn(x));
}
__device__ void store(float x, BFloat16* y) {
  y->bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
__device__ float load(Half x) {
  return __half2float(__ushort_as_half(x.bits));
}
__device__ float load(BFloat16 x) {
  return __bfloat162float(__ushort_as_bfloat16(x.bits));
}

template <class Narrow>
__global__ void narrow_kernel(std::int64_t n, const float* x, Narrow* y) {
  for (std::int64_t i = first_index(); i < n; i += index_stride()) {
    store(x[i], &y[i]);
  }
}

template <class Narrow>
__global__ void widen_kernel(std::int64_t n, const Narrow* x, TypedScale<float> scale, float* y) {
  for (std::int64_t i = first_index(); i < n; i += index_stride()) {
    put(load(x[i]), scale, &y[i]);
  }
}

}  // namespace

template <class T>
void CudaKernels::fill(Stream& s, std::int64_t n, T value, T* x) {
  launch(s, fill_kernel<T>, n, value, x);
}

template <class T>
void CudaKernels::axpby(Stream& s, std::int64_t n, const T* x, Scale scale, T* y) {
  launch(s, axpby_kernel<T>, n, x, TypedScale<T>(scale), y);
}

template <class Narrow>
void CudaKernels::narrow(Stream& s, std::int64_t n, const float* x, Narrow* y) {
  launch(s, narrow_kernel<Narrow>, n, x, y);
}

template <class Narrow>
void CudaKernels::widen(Stream& s, std::int64_t n, const Narrow* x, Scale scale, float* y) {
  launch(s, widen_kernel<Narrow>, n, x, TypedScale<float>(scale), y);
}

template void CudaKernels::fill(Stream&, std::int64_t, float, float*);
template void CudaKernels::fill(Stream&, std::int64_t, double, double*);
template void CudaKernels::axpby(Stream&, std::int64_t, const float*, Scale, float*);
template void CudaKernels::axpby(Stream&, std::int64_t, const double*, Scale, double*);
template void CudaKernels::narrow(Stream&, std::int64_t, const float*, Half*);
template void CudaKernels::narrow(Stream&, std::int64_t, const float*, BFloat16*);
template void CudaKernels::widen(Stream&, std::int64_t, const Half*, Scale, float*);
template void CudaKernels::widen(Stream&, std::int64_t, const BFloat16*, Scale, float*);

}  // namespace brigade
