#include "core/runtime/trace.h"

#include <array>

#include "core/runtime/context.h"

namespace brigade {

std::string_view to_string(Lane lane) {
  constexpr std::array<std::string_view, 4> kNames{"compute", "optimizer", "data", "host"};
  return kNames.at(static_cast<std::size_t>(lane));
}

std::size_t SpanLog::open(std::string name, Lane lane) {
  spans_.push_back({std::move(name), lane, depth_++, stream_.record(Timing::on), {}});
  return spans_.size() - 1;
}

void SpanLog::close(std::size_t span) {
  spans_[span].end = stream_.record(Timing::on);
  --depth_;
}

// The next step has as many.
std::vector<SpanLog::Span> SpanLog::take() {
  std::vector<Span> next;
  next.reserve(spans_.size());
  return std::exchange(spans_, std::move(next));
}

// Only this thread writes its names.
ScopeName::ScopeName(const char* name)
    : names_(Context::current().scope_names()),
      around_(names_.innermost.load(std::memory_order_relaxed)) {
  names_.innermost.store(name, std::memory_order_relaxed);
  if (around_ == nullptr) {
    names_.outermost.store(name, std::memory_order_relaxed);
  }
}

ScopeName::~ScopeName() {
  names_.innermost.store(around_, std::memory_order_relaxed);
  if (around_ == nullptr) {
    names_.outermost.store(nullptr, std::memory_order_relaxed);
  }
}

SpanLog* TraceScope::active_log() {
  return Context::current().span_log();
}

}  // namespace brigade
