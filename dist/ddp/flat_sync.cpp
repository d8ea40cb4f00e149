#include "dist/ddp/flat_sync.h"

namespace brigade::dist {

void FlatSync::on_backward_end() {
  check_all_arrived(context_, arrived_);
  Reducer::launch_full_buckets();
  Reducer::on_backward_end();
}

}  // namespace brigade::dist
