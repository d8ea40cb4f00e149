#include <cmath>

#include "core/cpu/vectorized_private.h"
#include "core/kernels.h"

namespace brigade {

template <class T>
void CpuKernels::add_squares(Stream& /*s*/, std::int64_t n, const T* x, double* sum) {
  // double: the squares of millions of small gradients would get lost
  *sum += sum_of(n, [=](std::int64_t i) {
    const auto value = static_cast<double>(x[i]);
    return value * value;
  });
}

template <class T>
void CpuKernels::clip(Stream& /*s*/, std::int64_t n, const double* squares, double max_norm, T* x) {
  const double factor = max_norm / (std::sqrt(*squares) + 1e-6);
  if (factor >= 1.0) {
    return;
  }
  vectorized([=] {
    for (std::int64_t i = 0; i < n; ++i) {
      x[i] *= static_cast<T>(factor);
    }
  });
}

template decltype(CpuKernels::add_squares<float>) CpuKernels::add_squares<float>;
template decltype(CpuKernels::add_squares<double>) CpuKernels::add_squares<double>;
template decltype(CpuKernels::clip<float>) CpuKernels::clip<float>;
template decltype(CpuKernels::clip<double>) CpuKernels::clip<double>;

}  // namespace brigade
