#include "dist/ddp/flat_sync.h"

namespace brigade::dist {

void FlatSync::on_backward_end() {
  check_all_arrived(context_, arrived_);
  for (std::size_t index = 0; index < arrived_.size(); ++index) {
    reducer_.on_grad_ready(index);
  }
  reducer_.on_backward_end();
  arrived_.assign(arrived_.size(), false);
}

void FlatSync::reset() noexcept {
  reducer_.reset();
  arrived_.assign(arrived_.size(), false);
}

}  // namespace brigade::dist
