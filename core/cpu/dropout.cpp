#include <algorithm>

#include "core/kernels.h"
#include "core/random.h"

namespace brigade {

template <class T>
void CpuKernels::dropout(Stream& /*s*/, std::int64_t n, DropoutArgs args, const T* x, Scale scale,
                         T* y) {
  const std::uint32_t threshold = args.threshold();
  const T kept = static_cast<T>(scale.alpha / (1.0 - args.p));
  const T beta = static_cast<T>(scale.beta);
  for (std::int64_t first = 0; first < n; first += 4) {
    const std::array<std::uint32_t, 4> words =
        random_block(args.stream.seed, args.stream.sequence, static_cast<std::uint64_t>(first) / 4);
    const std::int64_t end = std::min(first + 4, n);
    for (std::int64_t i = first; i < end; ++i) {
      const bool dropped = words[static_cast<std::size_t>(i - first)] >> 8U < threshold;
      const T result = dropped ? T{0} : kept * x[i];
      y[i] = beta == T{0} ? result : result + beta * y[i];
    }
  }
}

template void CpuKernels::dropout(Stream&, std::int64_t, DropoutArgs, const float*, Scale, float*);
template void CpuKernels::dropout(Stream&, std::int64_t, DropoutArgs, const double*, Scale,
                                  double*);

}  // namespace brigade
