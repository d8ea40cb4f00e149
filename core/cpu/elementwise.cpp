#include <algorithm>
#include <cmath>

#include "core/arithmetic.h"
#include "core/cpu/vectorized_private.h"
#include "core/kernels.h"
#include "core/random.h"

namespace brigade {
namespace {

/// fn(a, b) for each row, that is the last dimension, in row-major order: the places of its first
/// element in the two layouts.
template <class Fn>
void for_each_row(const StridePair& layouts, const Fn& fn) {
  const std::size_t last = layouts.rank - 1;
  const std::int64_t rows = layouts.numel() / std::max<std::int64_t>(layouts.extents[last], 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t a = 0;
    std::int64_t b = 0;
    std::int64_t rest = row;
    for (std::size_t dim = last; dim-- > 0;) {
      // The first dimension needs no division.
      const std::int64_t index = dim == 0 ? rest : rest % layouts.extents[dim];
      rest = dim == 0 ? 0 : rest / layouts.extents[dim];
      a += index * layouts.a_strides[dim];
      b += index * layouts.b_strides[dim];
    }
    fn(a, b);
  }
}

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
void CpuElementwise<T>::fill(Stream& /*s*/, std::int64_t n, T value, T* x) {
  std::fill_n(x, n, value);
}

template <class T>
void CpuElementwise<T>::axpby(Stream& /*s*/, std::int64_t n, const T* x, Scale scale, T* y) {
  write_scaled(n, scale, y, [x](std::int64_t i) { return x[i]; });
}

template <class T>
void CpuElementwise<T>::uniform(Stream& /*s*/, std::int64_t n, UniformArgs args, T* x) {
  // fma, written out: the GPU's compiler would contract low + (high - low) u by itself and round
  // differently.
  const T low = static_cast<T>(args.low);
  const T width = static_cast<T>(args.high) - low;
  for_each_word(args.stream, 0, n, [=](std::int64_t i, std::uint32_t word) {
    x[i] = std::fma(static_cast<T>(unit_float(word)), width, low);
  });
}

template <class T>
void CpuElementwise<T>::binary(Stream& /*s*/, BinaryOp op, const StridePair& dims, const T* a,
                               const T* b, Scale scale, T* y) {
  const std::size_t last = dims.rank - 1;
  const std::int64_t cols = dims.extents[last];
  visit(op, [&]<BinaryOp kOp>() {
    T* row = y;
    for_each_row(dims, [&](std::int64_t a_at, std::int64_t b_at) {
      binary_row<kOp>(cols, a + a_at, dims.a_strides[last] == 0, b + b_at,
                      dims.b_strides[last] == 0, scale, row);
      row += cols;
    });
  });
}

template <class T>
void CpuElementwise<T>::unary(Stream& /*s*/, UnaryOp op, std::int64_t n, const T* x, T* y) {
  visit(op, [&]<UnaryOp kOp>() {
    write_scaled(n, {}, y, [x](std::int64_t i) { return unary_value<kOp>(x[i]); });
  });
}

template <class T>
void CpuElementwise<T>::unary_backward(Stream& /*s*/, UnaryOp op, std::int64_t n, const T* dy,
                                       const T* kept, Scale scale, T* dx) {
  visit(op, [&]<UnaryOp kOp>() {
    write_scaled(n, scale, dx,
                 [dy, kept](std::int64_t i) { return unary_gradient<kOp>(dy[i], kept[i]); });
  });
}

/// Row by row along the last dimension, which merged() (core/strides.cpp) has made as long as it
/// can be.
template <class T>
void CpuElementwise<T>::copy_strided(Stream& s, const StridePair& copy, const T* src, Scale scale,
                                     T* dst) {
  const std::size_t last = copy.rank - 1;
  const std::int64_t from = copy.a_strides[last];
  const std::int64_t to = copy.b_strides[last];
  for_each_row(copy, [&](std::int64_t source, std::int64_t target) {
    if (from == 1 && to == 1) {
      axpby(s, copy.extents[last], src + source, scale, dst + target);
      return;
    }
    for (std::int64_t i = 0; i < copy.extents[last]; ++i) {
      store(src[source + i * from], scale, dst[target + i * to]);
    }
  });
}

template <class T>
void CpuElementwise<T>::dropout(Stream& /*s*/, std::int64_t n, DropoutArgs args, const T* x,
                                Scale scale, T* y) {
  const Scale kept = scale.times(1.0 / (1.0 - args.p));
  for_each_word(args.stream, 0, n,
                [=, threshold = args.threshold()](std::int64_t i, std::uint32_t word) {
                  store(word >> 8U < threshold ? T{0} : x[i], kept, y[i]);
                });
}

template <class Narrow>
void CpuKernels::narrow(Stream& /*s*/, std::int64_t n, const float* x, Narrow* y) {
  vectorized([=] {
    for (std::int64_t i = 0; i < n; ++i) {
      y[i] = narrowed<Narrow>(x[i]);
    }
  });
}

template <class Narrow>
void CpuKernels::widen(Stream& /*s*/, std::int64_t n, const Narrow* x, Scale scale, float* y) {
  write_scaled(n, scale, y, [x](std::int64_t i) { return to_float(x[i]); });
}

template decltype(CpuKernels::narrow<Half>) CpuKernels::narrow<Half>;
template decltype(CpuKernels::narrow<BFloat16>) CpuKernels::narrow<BFloat16>;
template decltype(CpuKernels::widen<Half>) CpuKernels::widen<Half>;
template decltype(CpuKernels::widen<BFloat16>) CpuKernels::widen<BFloat16>;

template struct CpuElementwise<float>;
template struct CpuElementwise<double>;

}  // namespace brigade
