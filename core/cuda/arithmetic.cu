#include "core/arithmetic.h"

#include "core/cuda/kernel.cuh"

namespace brigade {
namespace {

using cuda::first_index;
using cuda::index_stride;
using cuda::launch;
using cuda::put;
using cuda::TypedScale;

/// Divides once per dimension but the first: equal shapes and scalars, which are one dimension
/// (ops::binary), need no division.
template <BinaryOp op, class T>
__global__ void binary_kernel(std::int64_t n, StridePair dims, const T* a, const T* b,
                              TypedScale<T> scale, T* y) {
  for (std::int64_t i = first_index(); i < n; i += index_stride()) {
    std::int64_t rest = i;
    std::int64_t a_at = 0;
    std::int64_t b_at = 0;
    for (std::size_t dim = dims.rank - 1; dim > 0; --dim) {
      const std::int64_t at = rest % dims.extents[dim];
      rest /= dims.extents[dim];
      a_at += at * dims.a_strides[dim];
      b_at += at * dims.b_strides[dim];
    }
    a_at += rest * dims.a_strides[0];
    b_at += rest * dims.b_strides[0];
    put(binary_value<op>(a[a_at], b[b_at]), scale, &y[i]);
  }
}

template <UnaryOp op, class T>
__global__ void unary_kernel(std::int64_t n, const T* x, T* y) {
  for (std::int64_t i = first_index(); i < n; i += index_stride()) {
    y[i] = unary_value<op>(x[i]);
  }
}

template <UnaryOp op, class T>
__global__ void unary_backward_kernel(std::int64_t n, const T* dy, const T* kept,
                                      TypedScale<T> scale, T* dx) {
  for (std::int64_t i = first_index(); i < n; i += index_stride()) {
    put(unary_gradient<op>(dy[i], kept[i]), scale, &dx[i]);
  }
}

}  // namespace

template <class T>
void CudaKernels::binary(Stream& s, BinaryOp op, const StridePair& dims, const T* a, const T* b,
                         Scale scale, T* y) {
  std::int64_t n = 1;
  for (std::size_t dim = 0; dim < dims.rank; ++dim) {
    n *= dims.extents[dim];
  }
  visit(op, [&]<BinaryOp kOp>() {
    launch(s, binary_kernel<kOp, T>, n, dims, a, b, TypedScale<T>(scale), y);
  });
}

template <class T>
void CudaKernels::unary(Stream& s, UnaryOp op, std::int64_t n, const T* x, T* y) {
  visit(op, [&]<UnaryOp kOp>() { launch(s, unary_kernel<kOp, T>, n, x, y); });
}

template <class T>
void CudaKernels::unary_backward(Stream& s, UnaryOp op, std::int64_t n, const T* dy, const T* kept,
                                 Scale scale, T* dx) {
  visit(op, [&]<UnaryOp kOp>() {
    launch(s, unary_backward_kernel<kOp, T>, n, dy, kept, TypedScale<T>(scale), dx);
  });
}

template void CudaKernels::binary(Stream&, BinaryOp, const StridePair&, const float*, const float*,
                                  Scale, float*);
template void CudaKernels::binary(Stream&, BinaryOp, const StridePair&, const double*,
                                  const double*, Scale, double*);
template void CudaKernels::unary(Stream&, UnaryOp, std::int64_t, const float*, float*);
template void CudaKernels::unary(Stream&, UnaryOp, std::int64_t, const double*, double*);
template void CudaKernels::unary_backward(Stream&, UnaryOp, std::int64_t, const float*,
                                          const float*, Scale, float*);
template void CudaKernels::unary_backward(Stream&, UnaryOp, std::int64_t, const double*,
                                          const double*, Scale, double*);

}  // namespace brigade
