#include "dist/ddp/flat_sync.h"

namespace brigade::dist {

void FlatSync::on_backward_end() {
  Reducer::launch_full_buckets();
  Reducer::on_backward_end();
}

}  // namespace brigade::dist
