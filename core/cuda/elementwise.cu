#include "core/arithmetic.h"
#include "core/cuda/kernel.cuh"
#include "core/cuda/random.cuh"
#include "core/half.h"

namespace brigade {
namespace {

/// fn(i, place in a, place in b) for each element i of the two layouts, in row-major order. Divides
/// once per dimension but the first: layouts of one dimension (ops::merged) need no division.
template <class Fn>
void for_each_pair(Stream& s, const StridePair& dims, Fn fn) {
  cuda::for_each(s, dims.numel(), [=] __device__(std::int64_t i) {
    std::int64_t rest = i;
    std::int64_t a = 0;
    std::int64_t b = 0;
    for (std::size_t dim = dims.rank - 1; dim > 0; --dim) {
      const std::int64_t at = rest % dims.extents[dim];
      rest /= dims.extents[dim];
      a += at * dims.a_strides[dim];
      b += at * dims.b_strides[dim];
    }
    fn(i, a + rest * dims.a_strides[0], b + rest * dims.b_strides[0]);
  });
}

template <BinaryOp op, class T>
void binary_with(Stream& s, const StridePair& dims, const T* a, const T* b,
                 cuda::ScaledStore<T> store, T* y) {
  for_each_pair(s, dims, [=] __device__(std::int64_t i, std::int64_t a_at, std::int64_t b_at) {
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

/// fn(i, word i of `stream`) for i < n, on `s`. One thread computes one Philox block and uses its
/// four words.
template <class Fn>
void launch_for_each_word(Stream& s, std::int64_t n, RandomStream stream, Fn fn) {
  cuda::for_each(s, (n + 3) / 4, [=] __device__(std::int64_t block) {
    const auto words = cuda::random_block(stream, static_cast<std::uint64_t>(block));
    for (unsigned word = 0; word < 4 && 4 * block + word < n; ++word) {
      fn(4 * block + word, words[word]);
    }
  });
}

}  // namespace

template <class T>
void CudaElementwise<T>::fill(Stream& s, std::int64_t n, T value, T* x) {
  cuda::for_each(s, n, [=] __device__(std::int64_t i) { x[i] = value; });
}

template <class T>
void CudaElementwise<T>::axpby(Stream& s, std::int64_t n, const T* x, Scale scale, T* y) {
  const cuda::ScaledStore<T> store(scale);
  cuda::for_each(s, n, [=] __device__(std::int64_t i) { store(x[i], &y[i]); });
}

template <class T>
void CudaElementwise<T>::binary(Stream& s, BinaryOp op, const StridePair& dims, const T* a,
                                const T* b, Scale scale, T* y) {
  visit(op,
        [&]<BinaryOp kOp>() { binary_with<kOp>(s, dims, a, b, cuda::ScaledStore<T>(scale), y); });
}

template <class T>
void CudaElementwise<T>::unary(Stream& s, UnaryOp op, std::int64_t n, const T* x, T* y) {
  visit(op, [&]<UnaryOp kOp>() { unary_with<kOp>(s, n, x, y); });
}

template <class T>
void CudaElementwise<T>::unary_backward(Stream& s, UnaryOp op, std::int64_t n, const T* dy,
                                        const T* kept, Scale scale, T* dx) {
  visit(op, [&]<UnaryOp kOp>() {
    unary_backward_with<kOp>(s, n, dy, kept, cuda::ScaledStore<T>(scale), dx);
  });
}

template <class T>
void CudaElementwise<T>::copy_strided(Stream& s, const StridePair& copy, const T* src, Scale scale,
                                      T* dst) {
  const cuda::ScaledStore<T> store(scale);
  for_each_pair(s, copy, [=] __device__(std::int64_t /*i*/, std::int64_t from, std::int64_t to) {
    store(src[from], &dst[to]);
  });
}

/// fma and the conversions are exactly rounded, so the CPU gets the same bits.
template <class T>
void CudaElementwise<T>::uniform(Stream& s, std::int64_t n, UniformArgs args, T* x) {
  const T low = static_cast<T>(args.low);
  const T range = static_cast<T>(args.high) - low;
  launch_for_each_word(s, n, args.stream, [=] __device__(std::int64_t i, std::uint32_t word) {
    x[i] = std::fma(static_cast<T>(unit_float(word)), range, low);
  });
}

template <class T>
void CudaElementwise<T>::dropout(Stream& s, std::int64_t n, DropoutArgs args, const T* x,
                                 Scale scale, T* y) {
  const cuda::ScaledStore<T> store({.alpha = scale.alpha / (1.0 - args.p), .beta = scale.beta});
  const std::uint32_t threshold = args.threshold();
  launch_for_each_word(s, n, args.stream, [=] __device__(std::int64_t i, std::uint32_t word) {
    store(word >> 8U < threshold ? T{0} : x[i], &y[i]);
  });
}

template <class Narrow>
void CudaKernels::narrow(Stream& s, std::int64_t n, const float* x, Narrow* y) {
  cuda::for_each(s, n, [=] __device__(std::int64_t i) { y[i] = narrowed<Narrow>(x[i]); });
}

template <class Narrow>
void CudaKernels::widen(Stream& s, std::int64_t n, const Narrow* x, Scale scale, float* y) {
  const cuda::ScaledStore<float> store(scale);
  cuda::for_each(s, n, [=] __device__(std::int64_t i) { store(to_float(x[i]), &y[i]); });
}

template decltype(CudaKernels::narrow<Half>) CudaKernels::narrow<Half>;
template decltype(CudaKernels::narrow<BFloat16>) CudaKernels::narrow<BFloat16>;
template decltype(CudaKernels::widen<Half>) CudaKernels::widen<Half>;
template decltype(CudaKernels::widen<BFloat16>) CudaKernels::widen<BFloat16>;

template struct CudaElementwise<float>;
template struct CudaElementwise<double>;

}  // namespace brigade
