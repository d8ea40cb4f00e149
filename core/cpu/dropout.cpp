#include <algorithm>

#include "core/cpu/vectorized_private.h"
#include "core/kernels.h"
#include "core/random.h"

namespace brigade {

template <class T>
void CpuKernels::dropout(Stream& /*s*/, std::int64_t n, DropoutArgs args, const T* x, Scale scale,
                         T* y) {
  const std::uint32_t threshold = args.threshold();
  const Scale kept = scale.times(1.0 / (1.0 - args.p));
  for (std::int64_t first = 0; first < n; first += 4) {
    const std::array<std::uint32_t, 4> words =
        random_block(args.stream.seed, args.stream.sequence, static_cast<std::uint64_t>(first) / 4);
    const std::int64_t end = std::min(first + 4, n);
    for (std::int64_t i = first; i < end; ++i) {
      const bool dropped = words[static_cast<std::size_t>(i - first)] >> 8U < threshold;
      store(dropped ? T{0} : x[i], kept, y[i]);
    }
  }
}

template decltype(CpuKernels::dropout<float>) CpuKernels::dropout<float>;
template decltype(CpuKernels::dropout<double>) CpuKernels::dropout<double>;

}  // namespace brigade
