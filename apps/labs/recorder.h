#pragma once

#include <optional>
#include <string>

#include "apps/flags/options.h"
#include "apps/metrics/step_recorder.h"
#include "dist/comm/communicator.h"

namespace brigade::labs {

/// Records the steps of a lab for `--trace`. Without the flag its calls do nothing.
///
///     start()  { forward_done()  backward_done() } once per micro-batch  finish()
///
/// Backward includes the synchronisation of gradients: call backward_done() when the optimizer may
/// start. Records --trace-steps steps after the first kTraceSkip ones. All calls are collective.
class Recorder {
 public:
  /// `options`: the lab's flags, for `total_steps` steps. Both must outlive this.
  Recorder(const apps::Options& options, dist::Communicator& comm, std::int64_t total_steps);

  /// Waits for all ranks, then starts the clock of a step.
  void start();
  void forward_done();
  void backward_done();
  void finish();

  /// Writes trace.json.gz and timeline.html and prints where. `lab` is the title of the page.
  void write(const std::string& lab, const std::string& host) const;

 private:
  struct Recording {
    Recording(const apps::TraceSchedule& schedule, dist::Communicator& comm)
        : clock(kCpu, comm), recorder(schedule, clock, comm) {}

    apps::StepClock clock;
    apps::StepRecorder recorder;
  };

  const apps::Options& options_;
  dist::Communicator& comm_;
  std::optional<Recording> recording_;  // with --trace
  std::int64_t step_ = 0;
};

}  // namespace brigade::labs
