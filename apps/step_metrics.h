#pragma once

#include <cstddef>
#include <vector>

#include "apps/intervals.h"
#include "dist/communicator.h"

namespace brigade::apps {

/// Where the time of one step went on this rank, in ms. The definitions:
///
///   step      from the start of the first forward to the end of the optimizer
///   wait      the compute stream had nothing left to do but wait for a collective
///   forward, backward, optimizer   the parts of the step, without wait
///   comm      total length of the union of the collectives in flight
///   compute   the step without wait
///   hidden    |compute ∩ comm|: communication that cost no time
///   exposed   comm − hidden
struct StepTimes {
  double step = 0.0;
  double wait = 0.0;
  double forward = 0.0;
  double backward = 0.0;
  double optimizer = 0.0;
  double comm = 0.0;
  double hidden = 0.0;
  double exposed = 0.0;
};

/// One collective, in ms after the start of the step: its data was final, it began, it ended.
struct CollectiveTimes {
  double ready = 0.0;
  double begin = 0.0;
  double end = 0.0;
  std::size_t bytes = 0;
};

/// The raw times of a step, all in ms after its start.
struct StepSpans {
  std::vector<Interval> forwards;   ///< one per micro-batch
  std::vector<Interval> backwards;  ///< one per micro-batch
  Interval optimizer;
  std::vector<Interval> waits;
  std::vector<CollectiveTimes> collectives;
};

StepTimes times_of(const StepSpans& spans);

/// Takes the time of one step after the other, by events on the compute stream and the
/// communicator's records.
class StepClock {
 public:
  /// Switches the communicator's timing on until destroyed.
  StepClock(Device device, dist::Communicator& comm);
  ~StepClock() { comm_.set_timing(false); }
  StepClock(const StepClock&) = delete;
  StepClock& operator=(const StepClock&) = delete;

  void start();
  void forward_done();
  void backward_done();
  /// Everything of the step is enqueued. Waits for the device.
  StepSpans finish();

 private:
  void mark();

  Stream& stream_;
  dist::Communicator& comm_;
  std::vector<Event> marks_;  // start, then ends of: forward, backward, forward, ..., optimizer
};

}  // namespace brigade::apps
