// Builds without CUDA have no NVTX.
#include "core/trace.h"

namespace brigade {

void TraceScope::push_range(const char* /*name*/) {}
void TraceScope::pop_range() {}

}  // namespace brigade
