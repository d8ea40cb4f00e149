#pragma once

namespace brigade {

/// Names what the enclosing scope does, for profilers: an NVTX range in CUDA builds (free without a
/// profiler), nothing in CPU builds. Never synchronises a device. `name` must be a literal or
/// outlive the scope.
class TraceScope {
 public:
  explicit TraceScope(const char* name);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
};

}  // namespace brigade
