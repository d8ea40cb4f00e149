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

/// Shares collectives or updates out between the steps. `add(record, label, time)` receives the
/// part of each record in the step that began at `start` and took `step_ms`. Records that were not
/// over then stay in `records` for the next step.
template <class Record, class Add>
void share_out(std::vector<Record>& records, const Event& start, double step_ms, const Add& add) {
  std::vector<Record> unfinished;
  for (Record& record : records) {
    const bool over = record.end.done() && elapsed_ms(start, record.end) <= step_ms;
    const double end = over ? elapsed_ms(start, record.end) : step_ms;
    const double begin = record.begin.done() ? elapsed_ms(start, record.begin) : step_ms;
    if (begin < step_ms && end >= 0.0) {
      add(record, record.label + (begin < 0.0 ? kGoesOn : ""), Interval{std::max(begin, 0.0), end});
    }
    if (!over) {
      unfinished.push_back(std::move(record));
    }
  }
  records = std::move(unfinished);
}

/// When the device executed the scopes without others inside. Scopes come in the order in which
/// they were opened, so one has others inside exactly if the next one lies deeper.
std::vector<Interval> innermost(const std::vector<ScopeTimes>& scopes) {
  std::vector<Interval> result;
  for (std::size_t i = 0; i < scopes.size(); ++i) {
    const bool last = i + 1 == scopes.size() || scopes[i + 1].depth <= scopes[i].depth;
    if (last && (scopes[i].lane == Lane::compute || scopes[i].lane == Lane::optimizer)) {
      result.push_back({scopes[i].begin, scopes[i].end});
    }
  }
  return result;
}

}  // namespace

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
  times.load = spans.load;
  return times;
}

StepClock::StepClock(Device device, dist::Communicator& comm)
    : device_(device), stream_(compute_stream(device)), comm_(comm), log_(stream_) {
  comm_.times().on = true;
  restart();
}

StepClock::~StepClock() {
  set_recording(false);
  comm_.times().on = false;
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
  mark();
  if (border == Border::none && last_end_.recorded()) {
    marks_.front() = last_end_;
  }
}

StepSpans StepClock::finish(std::vector<dist::UpdateRecord> updates) {
  mark();
  stream_.synchronize();
  last_end_ = marks_.back();
  const Event& start = marks_.front();
  const auto ms = [&start](const Event& event) { return elapsed_ms(start, event); };
  BRIGADE_CHECK(marks_.size() % 2 == 0 && marks_.size() >= 4,
                "StepClock: expected pairs of forward and backward, got {} marks",
                marks_.size() - 2);
  StepSpans spans;
  spans.start = elapsed_ms(epoch_event_, start);
  for (std::size_t i = 1; i + 1 < marks_.size(); i += 2) {
    spans.forwards.push_back({ms(marks_[i - 1]), ms(marks_[i])});
    spans.backwards.push_back({ms(marks_[i]), ms(marks_[i + 1])});
  }
  spans.optimizer = {ms(marks_[marks_.size() - 2]), ms(marks_.back())};
  for (const dist::WaitRecord& wait : std::exchange(comm_.times().waits, {})) {
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
    spans.operations = innermost(spans.scopes);
  }
  return spans;
}

void StepClock::add_collectives(StepSpans& spans) {
  std::vector<dist::CollectiveRecord> fresh = std::exchange(comm_.times().collectives, {});
  std::move(fresh.begin(), fresh.end(), std::back_inserter(collectives_));
  share_out(collectives_, marks_.front(), spans.optimizer.end,
            [&](const dist::CollectiveRecord& record, const std::string& label, Interval time) {
              spans.labels.push_back(label);
              spans.collectives.push_back({.ready = elapsed_ms(marks_.front(), record.ready),
                                           .begin = time.begin,
                                           .end = time.end,
                                           .bytes = record.bytes});
            });
}

void StepClock::add_updates(StepSpans& spans) {
  share_out(
      updates_, marks_.front(), spans.optimizer.end,
      [&](const dist::UpdateRecord&, const std::string& label, Interval time) {
        spans.updates.push_back(time);
        if (recording_) {
          spans.scopes.push_back({"optimizer " + label, Lane::optimizer, 0, time.begin, time.end});
        }
      });
}

}  // namespace brigade::apps
