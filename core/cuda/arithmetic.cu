#include "core/arithmetic.h"

#include "core/cuda/kernel.cuh"

namespace brigade {
namespace {

/// Divides once per dimension but the first: equal shapes and scalars, which are one dimension
/// (ops::binary), need no division.
template <BinaryOp op, class T>
void binary_with(Stream& s, std::int64_t n, const StridePair& dims, const T* a, const T* b,
                 cuda::ScaledStore<T> store, T* y) {
  cuda::for_each(s, n, [=] __device__(std::int64_t i) {
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
    store(binary_value<op>(a[a_at], b[b_at]), &y[i]);
  });
}

template <UnaryOp op, class T>
void unary_with(Stream& s, std::int64_t n, const T* x, T* y) {
  cuda::for_each(s, n, [=] __device__(std::int64_t i) { y[i] = unary_value<op>(x[i]); });
}

template <UnaryOp op, class T>
void unary_backward_with(Stream& s, std::int64_t n, const T* dy, const T* kept,
                         cuda::ScaledStore<T> store, T* dx) {
  cuda::for_each(
      s, n, [=] __device__(std::int64_t i) { store(unary_gradient<op>(dy[i], kept[i]), &dx[i]); });
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
    binary_with<kOp>(s, n, dims, a, b, cuda::ScaledStore<T>(scale), y);
  });
}

template <class T>
void CudaKernels::unary(Stream& s, UnaryOp op, std::int64_t n, const T* x, T* y) {
  visit(op, [&]<UnaryOp kOp>() { unary_with<kOp>(s, n, x, y); });
}

template <class T>
void CudaKernels::unary_backward(Stream& s, UnaryOp op, std::int64_t n, const T* dy, const T* kept,
                                 Scale scale, T* dx) {
  visit(op, [&]<UnaryOp kOp>() {
    unary_backward_with<kOp>(s, n, dy, kept, cuda::ScaledStore<T>(scale), dx);
  });
}

template decltype(CudaKernels::binary<float>) CudaKernels::binary<float>;
template decltype(CudaKernels::binary<double>) CudaKernels::binary<double>;
template decltype(CudaKernels::unary<float>) CudaKernels::unary<float>;
template decltype(CudaKernels::unary<double>) CudaKernels::unary<double>;
template decltype(CudaKernels::unary_backward<float>) CudaKernels::unary_backward<float>;
template decltype(CudaKernels::unary_backward<double>) CudaKernels::unary_backward<double>;

}  // namespace brigade
