#include <cmath>

#include "core/cpu/vectorized_private.h"
#include "core/kernels.h"
#include "core/random.h"

namespace brigade {
template <class T>
void CpuKernels::fill(Stream& /*s*/, std::int64_t n, T value, T* x) {
  for (std::int64_t i = 0; i < n; ++i) {
    x[i] = value;
  }
}

template <class T>
void CpuKernels::axpby(Stream& /*s*/, std::int64_t n, const T* x, Scale scale, T* y) {
  write_scaled(n, scale, y, [x](std::int64_t i) { return x[i]; });
}

template <class T>
void CpuKernels::uniform(Stream& /*s*/, std::int64_t n, UniformArgs args, T* x) {
  // fma, written out: the GPU's compiler would contract low + (high - low) u by itself and round
  // differently.
  const T low = static_cast<T>(args.low);
  const T width = static_cast<T>(args.high) - low;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t bits = random_bits(args.seed, args.sequence, static_cast<std::uint64_t>(i));
    x[i] = std::fma(static_cast<T>(unit_float(bits)), width, low);
  }
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

template decltype(CpuKernels::fill<float>) CpuKernels::fill<float>;
template decltype(CpuKernels::fill<double>) CpuKernels::fill<double>;
template decltype(CpuKernels::axpby<float>) CpuKernels::axpby<float>;
template decltype(CpuKernels::axpby<double>) CpuKernels::axpby<double>;
template decltype(CpuKernels::uniform<float>) CpuKernels::uniform<float>;
template decltype(CpuKernels::uniform<double>) CpuKernels::uniform<double>;
template decltype(CpuKernels::narrow<Half>) CpuKernels::narrow<Half>;
template decltype(CpuKernels::narrow<BFloat16>) CpuKernels::narrow<BFloat16>;
template decltype(CpuKernels::widen<Half>) CpuKernels::widen<Half>;
template decltype(CpuKernels::widen<BFloat16>) CpuKernels::widen<BFloat16>;

}  // namespace brigade
