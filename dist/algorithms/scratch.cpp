#include "dist/algorithms/scratch.h"

#include <algorithm>

namespace brigade::dist {

Tensor Scratch::take(std::int64_t numel, const Tensor& like) {
  std::int64_t largest = 0;
  for (const Tensor& block : blocks_) {
    if (block.dtype() == like.dtype() && block.device() == like.device()) {
      if (block.numel() >= numel) {
        return block.flat_view(0, {numel});
      }
      largest = std::max(largest, block.numel());
    }
  }
  blocks_.push_back(Tensor::empty({std::max(numel, 2 * largest)}, like.dtype(), like.device()));
  return blocks_.back().flat_view(0, {numel});
}

}  // namespace brigade::dist
