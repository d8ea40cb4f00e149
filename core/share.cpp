#include "core/share.h"

#include <algorithm>

namespace brigade {

Share share_of(std::int64_t numel, int rank, int size) {
  const std::int64_t units = (numel + kShareUnit - 1) / kShareUnit;
  const auto edge = [&](std::int64_t i) { return std::min(numel, units * i / size * kShareUnit); };
  return {.begin = edge(rank), .count = edge(rank + 1) - edge(rank)};
}

Tensor share_of(const Tensor& tensor, int rank, int size) {
  const Share share = share_of(tensor.numel(), rank, size);
  return tensor.flat_view(share.begin, {share.count});
}

}  // namespace brigade
