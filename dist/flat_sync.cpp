#include "dist/flat_sync.h"

#include <algorithm>

namespace brigade::dist {

void FlatSync::on_backward_end() {
  if (std::find(arrived_.begin(), arrived_.end(), false) != arrived_.end()) {
    throw_missing(targets_, arrived_);
  }
  for (std::size_t i = 0; i < targets_.buckets.size(); ++i) {
    Work last;
    for (const Piece& piece : targets_.buckets[i].pieces) {
      last = targets_.hook.all_reduce(i, piece, targets_.comm);
    }
    targets_.sink.launched(i, targets_.buckets[i], last);
  }
  targets_.sink.backward_ended();
  reset();
}

void FlatSync::reset() noexcept {
  targets_.sink.reset();
  std::fill(arrived_.begin(), arrived_.end(), false);
}

}  // namespace brigade::dist
