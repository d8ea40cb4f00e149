// Builds without CUDA have no NVTX.
#include "core/runtime/trace.h"

namespace brigade {

ProfilerRange::ProfilerRange(const char* /*name*/) {}
ProfilerRange::~ProfilerRange() {}

}  // namespace brigade
