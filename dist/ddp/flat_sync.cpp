#include "dist/ddp/flat_sync.h"

#include <algorithm>

namespace brigade::dist {

void FlatSync::on_backward_end() {
  check_all_arrived(context_, arrived_);
  for (std::size_t index = 0; index < arrived_.size(); ++index) {
    reducer_.on_grad_ready(index);
  }
  reducer_.on_backward_end();
  std::fill(arrived_.begin(), arrived_.end(), false);
}

void FlatSync::reset() noexcept {
  reducer_.reset();
  std::fill(arrived_.begin(), arrived_.end(), false);
}

}  // namespace brigade::dist
