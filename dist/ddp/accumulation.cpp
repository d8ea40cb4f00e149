#include "dist/ddp/accumulation.h"

#include "core/error.h"

namespace brigade::dist {

Accumulation::Accumulation(GradAverager& averager, int micro_batches)
    : averager_(averager), current_{.count = micro_batches} {
  BRIGADE_CHECK(micro_batches > 0, "accumulate: expected at least one micro-batch, got ",
                micro_batches);
}

void Accumulation::start(int index) {
  current_.index = index;
  if (index == 0 && !current_.last()) {
    silent_ = averager_.no_sync();
  } else if (current_.last()) {
    silent_.reset();
  }
}

}  // namespace brigade::dist
