// Builds without CUDA have no NVTX: a scope costs two empty calls.
#include "core/trace.h"

namespace brigade {

TraceScope::TraceScope(const char* /*name*/) {}
TraceScope::~TraceScope() {}

}  // namespace brigade
