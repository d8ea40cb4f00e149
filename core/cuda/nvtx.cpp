#include <nvtx3/nvToolsExt.h>

#include "core/runtime/trace.h"

namespace brigade {

// Without a profiler attached each of these is a load and a branch.
ProfilerRange::ProfilerRange(const char* name) {
  nvtxRangePushA(name);
}
ProfilerRange::~ProfilerRange() {
  nvtxRangePop();
}

}  // namespace brigade
