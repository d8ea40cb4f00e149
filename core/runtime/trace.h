#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "core/runtime/stream.h"

namespace brigade {

/// What a span occupies: a lane of the time line.
enum class Lane : std::uint8_t { compute, optimizer, data, host };
std::string_view to_string(Lane lane);

/// What one rank did and when, while somebody looks (Context::set_span_log). Spans nest as the
/// scopes do. Times are events on the stream given here, so on a GPU they are the GPU's times, and
/// recording never waits for it.
class SpanLog {
 public:
  struct Span {
    std::string name;
    Lane lane = Lane::compute;
    int depth = 0;  ///< number of spans around this one
    Event begin;
    Event end;
  };

  explicit SpanLog(Stream& stream) : stream_(stream) {}

  std::size_t open(std::string name, Lane lane);
  void close(std::size_t span);

  /// All spans since the last call, in the order in which they were opened. None may be open.
  std::vector<Span> take();

 private:
  Stream& stream_;
  std::vector<Span> spans_;
  int depth_ = 0;
};

/// An NVTX range in CUDA builds, nothing in others: for scopes that are not the compute stream's.
class ProfilerRange {
 public:
  explicit ProfilerRange(const char* name);  // nvtx.cpp or no_nvtx.cpp
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
};

/// What a thread does now, for another thread to read at any time (dist/watch): the names of its
/// outermost and of its innermost ScopeName, null outside of any.
struct ScopeNames {
  std::atomic<const char*> outermost = nullptr;
  std::atomic<const char*> innermost = nullptr;
};

/// Names of scopes whose meaning dist/watch knows. In the first a rank may stay for any time
/// without being stuck; in the second it waits for the device, and a GPU may wait for other ranks.
inline constexpr const char* kWritesFiles = "reading or writing files";
inline constexpr const char* kDeviceWait = "waiting for the device";

/// Names what the enclosing scope does, a few nanoseconds. `name` must be a literal.
class ScopeName {
 public:
  explicit ScopeName(const char* name);
  ~ScopeName();
  ScopeName(const ScopeName&) = delete;
  ScopeName& operator=(const ScopeName&) = delete;

 private:
  ScopeNames& names_;
  const char* around_;  // the innermost scope around this one
};

/// A ScopeName that also is a span of this thread's SpanLog, if it has one, and an NVTX range
/// in CUDA builds. When nobody looks it costs a few calls, some ten nanoseconds. Never
/// synchronises a device.
class TraceScope {
 public:
  explicit TraceScope(const char* name, Lane lane = Lane::compute)
      : TraceScope(
            name, [] { return std::string(); }, lane) {}

  /// `detail` is appended to the name; called only if somebody looks.
  template <std::invocable Detail>
  TraceScope(const char* name, Detail&& detail, Lane lane = Lane::compute)
      : name_(name), range_(name), log_(active_log()) {
    if (log_ != nullptr) {
      span_ = log_->open(std::string(name).append(detail()), lane);
    }
  }

  ~TraceScope() {
    // On the way out of a failure the span stays open: the device may be what failed, and a record
    // that throws here would end the program without its message.
    if (log_ != nullptr && std::uncaught_exceptions() == exceptions_at_start_) {
      log_->close(span_);
    }
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  static SpanLog* active_log();

  ScopeName name_;
  ProfilerRange range_;
  SpanLog* log_;
  std::size_t span_ = 0;
  int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace brigade
