#include "apps/metrics/step_metrics.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "core/runtime/context.h"

namespace brigade::apps {

namespace {

IntervalSet step_of(const StepSpans& spans) {
  return {{0.0, spans.optimizer.end}};
}

}  // namespace

std::vector<ScopeTimes> innermost(const std::vector<ScopeTimes>& scopes, Lane lane) {
  std::vector<ScopeTimes> result;
  for (std::size_t i = 0; i < scopes.size(); ++i) {
    const bool last = i + 1 == scopes.size() || scopes[i + 1].depth <= scopes[i].depth;
    if (last && scopes[i].lane == lane) {
      result.push_back(scopes[i]);
    }
  }
  return result;
}

IntervalSet computation_of(const StepSpans& spans) {
  // A GPU whose host is late has nothing to do between two operations, without any wait in its
  // stream. What is in flight then is not hidden behind computation. A CPU is its own host.
  const IntervalSet busy =
      spans.operations.empty() ? step_of(spans) : intersect(step_of(spans), join(spans.operations));
  return subtract(busy, join(spans.waits));
}

IntervalSet communication_of(const StepSpans& spans) {
  std::vector<Interval> in_flight;
  for (const CollectiveTimes& collective : spans.collectives) {
    in_flight.push_back({collective.begin, collective.end});
  }
  return join(std::move(in_flight));
}

StepTimes times_of(const StepSpans& spans) {
  const IntervalSet waits = join(spans.waits);
  const auto without_waits = [&](const std::vector<Interval>& parts) {
    return total_length(subtract(join(parts), waits));
  };
  const IntervalSet comm = communication_of(spans);
  const IntervalSet compute = computation_of(spans);

  StepTimes times;
  times.step = total_length(step_of(spans));
  times.wait = total_length(intersect(step_of(spans), waits));
  times.forward = without_waits(spans.forwards);
  times.backward = without_waits(spans.backwards);
  times.optimizer =
      spans.updates.empty() ? without_waits({spans.optimizer}) : total_length(join(spans.updates));
  times.comm = total_length(comm);
  times.hidden = total_length(intersect(compute, comm));
  times.exposed = times.comm - times.hidden;
  return times;
}

StepClock::StepClock(Device device, dist::Communicator& comm)
    : device_(device), stream_(compute_stream(device)), comm_(comm), log_(stream_) {
  comm_.set_timing(true);
  restart();
}

StepClock::~StepClock() {
  set_recording(false);
  comm_.set_timing(false);
}

void StepClock::restart() {
  using Clock = std::chrono::steady_clock;
  constexpr int kAttempts = 5;  // the fastest round trip knows best
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Clock::time_point before = Clock::now();
    Event event = stream_.record(Timing::on);
    event.synchronize();
    const Clock::duration half = (Clock::now() - before) / 2;
    const double error_ms = std::chrono::duration<double, std::milli>(half).count();
    if (attempt == 0 || error_ms < epoch_error_ms_) {
      epoch_event_ = std::move(event);
      epoch_ = before + half;
      epoch_error_ms_ = error_ms;
    }
  }
}

void StepClock::set_recording(bool on) {
  recording_ = on;
  Context::current().set_span_log(on ? &log_ : nullptr);
}

void StepClock::start(Border border) {
  marks_.clear();
  memory_.clear();
  mark();
  if (border == Border::none && last_end_.recorded()) {
    marks_.front() = last_end_;
  }
}

void StepClock::forward_done() {
  mark();
}
void StepClock::backward_done() {
  mark();
}
void StepClock::mark(const Event& event) {
  if (recording_) {
    memory_.push_back(Context::current().memory_stats(device_).in_use);
  }
  marks_.push_back(event);
}

StepSpans StepClock::finish(std::vector<dist::UpdateRecord> updates) {
  mark();
  stream_.synchronize();
  last_end_ = marks_.back();
  const Event& start = marks_.front();
  const auto ms = [&start](const Event& event) { return elapsed_ms(start, event); };
  BRIGADE_CHECK(marks_.size() % 2 == 0 && marks_.size() >= 4,
                "StepClock: expected pairs of forward and backward, got ", marks_.size() - 2,
                " marks");
  StepSpans spans;
  spans.start = elapsed_ms(epoch_event_, start);
  for (std::size_t i = 1; i + 1 < marks_.size(); i += 2) {
    spans.forwards.push_back({ms(marks_[i - 1]), ms(marks_[i])});
    spans.backwards.push_back({ms(marks_[i]), ms(marks_[i + 1])});
  }
  spans.optimizer = {ms(marks_[marks_.size() - 2]), ms(marks_.back())};
  for (const dist::WaitRecord& wait : comm_.take_waits()) {
    spans.waits.push_back({ms(wait.begin), ms(wait.end)});
  }
  add_collectives(spans);
  std::move(updates.begin(), updates.end(), std::back_inserter(updates_));
  add_updates(spans);
  std::vector<SpanLog::Span> scopes = log_.take();
  spans.scopes.reserve(scopes.size());
  for (SpanLog::Span& scope : scopes) {
    spans.scopes.push_back(
        {std::move(scope.name), scope.lane, scope.depth, ms(scope.begin), ms(scope.end)});
  }
  if (device_.is_cuda()) {
    for (const Lane lane : {Lane::compute, Lane::optimizer}) {
      for (const ScopeTimes& operation : innermost(spans.scopes, lane)) {
        spans.operations.push_back({operation.begin, operation.end});
      }
    }
  }
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    spans.memory.push_back({ms(marks_[i]), memory_[i]});
  }
  return spans;
}

void StepClock::add_collectives(StepSpans& spans) {
  std::vector<dist::CollectiveRecord> fresh = comm_.take_collectives();
  std::move(fresh.begin(), fresh.end(), std::back_inserter(collectives_));
  const double step_end = spans.optimizer.end;
  const auto ms = [this](const Event& event) { return elapsed_ms(marks_.front(), event); };
  std::vector<dist::CollectiveRecord> unfinished;
  for (dist::CollectiveRecord& record : collectives_) {
    const bool over = record.end.done() && ms(record.end) <= step_end;
    const double end = over ? ms(record.end) : step_end;
    if (record.begin.done() && ms(record.begin) < step_end && end >= 0.0) {
      const double begin = ms(record.begin);
      spans.labels.push_back(begin < 0.0 ? record.label + kGoesOn : record.label);
      spans.collectives.push_back({ms(record.ready), std::max(begin, 0.0), end, record.bytes});
    }
    if (!over) {
      unfinished.push_back(std::move(record));
    }
  }
  collectives_ = std::move(unfinished);
}

void StepClock::add_updates(StepSpans& spans) {
  const double step_end = spans.optimizer.end;
  const auto ms = [this](const Event& event) { return elapsed_ms(marks_.front(), event); };
  std::vector<dist::UpdateRecord> unfinished;
  for (dist::UpdateRecord& record : updates_) {
    const bool over = record.end.done() && ms(record.end) <= step_end;
    const double end = over ? ms(record.end) : step_end;
    if (record.begin.done() && ms(record.begin) < step_end && end >= 0.0) {
      const double begin = ms(record.begin);
      const Interval part{std::max(begin, 0.0), end};
      spans.updates.push_back(part);
      if (recording_) {
        const std::string name = "optimizer " + record.label + (begin < 0.0 ? kGoesOn : "");
        spans.scopes.push_back({name, Lane::optimizer, 0, part.begin, part.end});
      }
    }
    if (!over) {
      unfinished.push_back(std::move(record));
    }
  }
  updates_ = std::move(unfinished);
}

}  // namespace brigade::apps
