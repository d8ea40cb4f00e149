#include "dist/flat_sync.h"

#include <algorithm>

namespace brigade::dist {

void FlatSync::on_backward_end() {
  if (std::find(arrived_.begin(), arrived_.end(), false) != arrived_.end()) {
    throw_missing(targets_, arrived_);
  }
  std::vector<Work> works;
  for (std::size_t i = 0; i < targets_.buckets.size(); ++i) {
    works.push_back(targets_.hook.all_reduce(i, targets_.buckets[i], targets_.comm));
  }
  for (std::size_t i = 0; i < works.size(); ++i) {
    targets_.comm.wait(works[i], targets_.buckets[i].grads.device());
  }
  reset();
}

void FlatSync::reset() noexcept {
  std::fill(arrived_.begin(), arrived_.end(), false);
}

}  // namespace brigade::dist
