#include "core/random.h"

#include <Random123/philox.h>

#include "core/cuda/kernel.cuh"

namespace brigade {
namespace {

/// fn(i, word i of `stream`) for i < n, on `s`: bit for bit the words of core/random.h. One thread
/// computes one Philox block and uses its four words.
template <class Fn>
void for_each_word(Stream& s, std::int64_t n, RandomStream stream, Fn fn) {
  cuda::for_each(s, (n + 3) / 4, [=] __device__(std::int64_t block) {
    const auto low = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
    const auto high = [](std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32U); };
    const auto counter = static_cast<std::uint64_t>(block);
    const auto words =
        r123::Philox4x32_R<10>()({{low(counter), high(counter), stream.sequence, 0U}},
                                 {{low(stream.seed), high(stream.seed)}});
    for (unsigned word = 0; word < 4 && 4 * block + word < n; ++word) {
      fn(4 * block + word, words[word]);
    }
  });
}

__device__ float fused(float unit, float range, float low) {
  return fmaf(unit, range, low);
}
__device__ double fused(double unit, double range, double low) {
  return fma(unit, range, low);
}

}  // namespace

/// fma and the conversions are exactly rounded, so the CPU gets the same bits.
template <class T>
void CudaKernels::uniform(Stream& s, std::int64_t n, UniformArgs args, T* x) {
  const T low = static_cast<T>(args.low);
  const T range = static_cast<T>(args.high) - low;
  for_each_word(s, n, {.seed = args.seed, .sequence = args.sequence},
                [=] __device__(std::int64_t i, std::uint32_t word) {
                  x[i] = fused(static_cast<T>(unit_float(word)), range, low);
                });
}

template <class T>
void CudaKernels::dropout(Stream& s, std::int64_t n, DropoutArgs args, const T* x, Scale scale,
                          T* y) {
  const cuda::ScaledStore<T> store({.alpha = scale.alpha / (1.0 - args.p), .beta = scale.beta});
  const std::uint32_t threshold = args.threshold();
  for_each_word(s, n, args.stream, [=] __device__(std::int64_t i, std::uint32_t word) {
    store(word >> 8U < threshold ? T{0} : x[i], &y[i]);
  });
}

template decltype(CudaKernels::uniform<float>) CudaKernels::uniform<float>;
template decltype(CudaKernels::uniform<double>) CudaKernels::uniform<double>;
template decltype(CudaKernels::dropout<float>) CudaKernels::dropout<float>;
template decltype(CudaKernels::dropout<double>) CudaKernels::dropout<double>;

}  // namespace brigade
