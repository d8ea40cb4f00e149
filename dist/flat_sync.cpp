#include "dist/flat_sync.h"

#include <algorithm>

namespace brigade::dist {

void FlatSync::on_backward_end() {
  if (std::find(arrived_.begin(), arrived_.end(), false) != arrived_.end()) {
    throw_missing(targets_, arrived_);
  }
  std::vector<Work> works;
  for (const Bucket& bucket : targets_.buckets) {
    works.push_back(start_all_reduce(bucket, targets_.comm));
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
