#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "apps/metrics/intervals.h"
#include "core/runtime/trace.h"
#include "dist/comm/communicator.h"
#include "dist/overlap/bucket_optimizer.h"

namespace brigade::apps {

/// Where the time of one step went on this rank, in ms. The definitions:
///
///   step      from the start of the first forward to the end of the optimizer; with --cross-step
///             from the end of the step before
///   wait      the compute stream had nothing left to do but wait for a collective
///   forward, backward, optimizer   the parts of the step, without wait
///             (updates in flight: the optimizer is the union of these, beside the rest)
///   comm      total length of the union of the collectives in flight
///   compute   the step without wait; in recorded steps of a GPU the union of its operations
///   hidden    |compute ∩ comm|: communication that cost no time
///   exposed   comm − hidden
///   load      before the step: the host waited for its batch; 0 where that is part of the step
struct StepTimes {
  double step = 0.0;
  double wait = 0.0;
  double forward = 0.0;
  double backward = 0.0;
  double optimizer = 0.0;
  double comm = 0.0;
  double hidden = 0.0;
  double exposed = 0.0;
  double load = 0.0;
};

/// One collective, in ms after the start of the step: its data was final, it began, it ended.
struct CollectiveTimes {
  double ready = 0.0;
  double begin = 0.0;
  double end = 0.0;
  std::size_t bytes = 0;
};

/// A TraceScope in ms after the start of the step; negative while its data was loaded.
struct ScopeTimes {
  std::string name;
  Lane lane = Lane::compute;
  int depth = 0;
  double begin = 0.0;
  double end = 0.0;
};

/// Ends the label of a collective or update in the steps after the one in which it began.
inline constexpr const char* kGoesOn = " (goes on)";

/// The raw times of a step, all in ms after its start.
struct StepSpans {
  double start = 0.0;               ///< of the step itself, in ms after StepClock::epoch()
  double load = 0.0;                ///< see StepTimes
  std::vector<Interval> forwards;   ///< one per micro-batch
  std::vector<Interval> backwards;  ///< one per micro-batch
  Interval optimizer;
  std::vector<Interval> updates;  ///< of buckets in flight, beside the computation
  std::vector<Interval> waits;
  std::vector<CollectiveTimes> collectives;
  std::vector<std::string> labels;   ///< of the collectives
  std::vector<ScopeTimes> scopes;    ///< while recording
  std::vector<Interval> operations;  ///< while recording, on a GPU: when it executed which
};

StepTimes times_of(const StepSpans& spans);

/// The sets behind those figures: when this rank computed, and when it had collectives in flight.
/// What is in the second but not in the first is exposed.
IntervalSet computation_of(const StepSpans& spans);
IntervalSet communication_of(const StepSpans& spans);

/// Takes the time of one step after the other, by events on the compute stream and the
/// communicator's records.
class StepClock {
 public:
  /// Switches the communicator's timing on until destroyed.
  StepClock(Device device, dist::Communicator& comm);
  ~StepClock();
  StepClock(const StepClock&) = delete;
  StepClock& operator=(const StepClock&) = delete;

  /// From now on epoch() is now. Waits for the device. A GPU's event times are floats: far from the
  /// epoch they would lose microseconds.
  void restart();

  /// The first event's true time lies within epoch() ± this. A GPU notes the time when its stream
  /// reaches the event; the host knows only that it was between recording it and hearing of it.
  double epoch_error_ms() const { return epoch_error_ms_; }

  /// Whether the coming steps' TraceScopes are recorded as well.
  void set_recording(bool on);

  /// What step starts are counted from, on this host's std::chrono::steady_clock.
  std::chrono::steady_clock::time_point epoch() const { return epoch_; }

  /// What the steps are separated by.
  enum class Border : bool {
    barrier,  ///< whatever happened since the last step, such as loading data, is no part of any
    none      ///< the step begins where the last one ended: communication runs on across the border
  };
  void start(Border border = Border::barrier);
  /// What happens from the end of the last step to the start of the next is no part of any.
  void pause() { last_end_ = Event(); }
  void forward_done() { mark(); }
  void backward_done() { mark(); }
  /// Everything of the step is enqueued. Waits for the compute stream. A collective or update that
  /// is still in flight counts up to here, and the rest of it in the next step.
  StepSpans finish(std::vector<dist::UpdateRecord> updates = {});

 private:
  void mark() { marks_.push_back(stream_.record(Timing::on)); }
  void add_collectives(StepSpans& spans);
  void add_updates(StepSpans& spans);

  Device device_;
  Stream& stream_;
  dist::Communicator& comm_;
  SpanLog log_;
  bool recording_ = false;
  Event epoch_event_;
  std::chrono::steady_clock::time_point epoch_;
  Event last_end_;
  std::vector<dist::CollectiveRecord> collectives_;  // not over when the last step was
  std::vector<dist::UpdateRecord> updates_;          // likewise
  double epoch_error_ms_ = 0.0;
  std::vector<Event> marks_;  // start, then ends of: forward, backward, forward, ..., optimizer
};

}  // namespace brigade::apps
