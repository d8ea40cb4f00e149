#include "core/arithmetic.h"

#include "core/cpu/strided_private.h"
#include "core/cpu/vectorized_private.h"
#include "core/kernels.h"

namespace brigade {
namespace {

/// One row of a result. A stride of 0: the row has one and the same operand.
template <BinaryOp op, class T>
void binary_row(std::int64_t n, const T* a, bool a_is_one, const T* b, bool b_is_one, Scale scale,
                T* y) {
  if (a_is_one) {
    write_scaled(n, scale, y, [left = *a, b](auto i) { return binary_value<op>(left, b[i]); });
  } else if (b_is_one) {
    write_scaled(n, scale, y, [a, right = *b](auto i) { return binary_value<op>(a[i], right); });
  } else {
    write_scaled(n, scale, y, [a, b](auto i) { return binary_value<op>(a[i], b[i]); });
  }
}

}  // namespace

template <class T>
void CpuKernels::binary(Stream& /*s*/, BinaryOp op, const StridePair& dims, const T* a, const T* b,
                        Scale scale, T* y) {
  const std::size_t last = dims.rank - 1;
  const std::int64_t cols = dims.extents[last];
  visit(op, [&]<BinaryOp kOp>() {
    T* row = y;
    for_each_row(dims, [&](std::int64_t a_at, std::int64_t b_at) {
      if (cols > 0) {
        binary_row<kOp>(cols, a + a_at, dims.a_strides[last] == 0, b + b_at,
                        dims.b_strides[last] == 0, scale, row);
        row += cols;
      }
    });
  });
}

template <class T>
void CpuKernels::unary(Stream& /*s*/, UnaryOp op, std::int64_t n, const T* x, T* y) {
  visit(op, [&]<UnaryOp kOp>() {
    write_scaled(n, {}, y, [x](std::int64_t i) { return unary_value<kOp>(x[i]); });
  });
}

template <class T>
void CpuKernels::unary_backward(Stream& /*s*/, UnaryOp op, std::int64_t n, const T* dy,
                                const T* kept, Scale scale, T* dx) {
  visit(op, [&]<UnaryOp kOp>() {
    write_scaled(n, scale, dx,
                 [dy, kept](std::int64_t i) { return unary_gradient<kOp>(dy[i], kept[i]); });
  });
}

template decltype(CpuKernels::binary<float>) CpuKernels::binary<float>;
template decltype(CpuKernels::binary<double>) CpuKernels::binary<double>;
template decltype(CpuKernels::unary<float>) CpuKernels::unary<float>;
template decltype(CpuKernels::unary<double>) CpuKernels::unary<double>;
template decltype(CpuKernels::unary_backward<float>) CpuKernels::unary_backward<float>;
template decltype(CpuKernels::unary_backward<double>) CpuKernels::unary_backward<double>;

}  // namespace brigade
