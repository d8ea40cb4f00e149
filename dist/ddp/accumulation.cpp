#include "dist/ddp/accumulation.h"

#include "core/error.h"

namespace brigade::dist {

Accumulation::Accumulation(GradAverager& averager, int micro_batches)
    : averager_(averager), current_{.count = micro_batches} {
  BRIGADE_CHECK(micro_batches > 0, "accumulate: expected at least one micro-batch, got {}",
                micro_batches);
}

void Accumulation::start(int index) {
  current_.index = index;
  silent_ = index + 1 < current_.count ? averager_.no_sync() : nullptr;
}

}  // namespace brigade::dist
