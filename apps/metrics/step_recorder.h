#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/metrics/run_trace.h"
#include "apps/metrics/step_metrics.h"

namespace brigade::apps {

/// Records a few steps of a run: what --trace writes and what the list of operations at the end of
/// every run is made from. Collective, like the steps.
class StepRecorder {
 public:
  StepRecorder(TraceSchedule schedule, StepClock& clock, dist::Communicator& comm)
      : schedule_(schedule), clock_(clock), comm_(comm) {}

  /// To be called around every step; `step` counts from 0.
  void before_step(std::int64_t step);
  void after_step(std::int64_t step, StepSpans spans);

  /// This rank's steps, as far as recorded.
  const std::vector<StepTrace>& steps() const { return steps_; }

  /// All ranks' steps on one clock, on rank 0; see gather_traces. Collective.
  std::vector<RankTrace> gather(const std::string& host) const;

 private:
  TraceSchedule schedule_;
  StepClock& clock_;
  dist::Communicator& comm_;
  std::vector<StepTrace> steps_;
  std::optional<dist::ClockOffset> before_;
  dist::ClockOffset after_;
};

/// How much time one kind of operation took in a step, without the operations inside it.
struct OperationTime {
  std::string name;  ///< "backward linear"
  double ms = 0.0;   ///< per step
  double calls = 0;  ///< per step
};

/// The operations of the recorded steps, the longest first. What is between the operations of a
/// phase counts as the phase's own: "backward". All updates are one "optimizer", in flight or not.
std::vector<OperationTime> operation_times(const std::vector<StepTrace>& steps);

}  // namespace brigade::apps
