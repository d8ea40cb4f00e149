#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dist/comm/communicator.h"

namespace brigade::apps {
struct Options;
}

namespace brigade::labs {

/// Records the steps of a lab for `--trace`. Without the flag its calls do nothing.
///
///     start()  { forward_done()  backward_done() } once per micro-batch  finish()
///
/// Backward includes the synchronisation of gradients: call backward_done() when the optimizer may
/// start. Records --trace-steps steps after the first five. All calls are collective.
class Recorder {
 public:
  /// `options`: the lab's flags, for `total_steps` steps. Both must outlive this.
  Recorder(const apps::Options& options, dist::Communicator& comm, int total_steps);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Waits for all ranks, then starts the clock of a step.
  void start();
  void forward_done();
  void backward_done();
  void finish();

  /// Runs `move` and records it as exposed communication of `bytes`: for messages that do not go
  /// through the Communicator.
  void transfer(const std::string& label, std::size_t bytes, const std::function<void()>& move);

  /// Writes trace.json.gz and timeline.html and prints where. `lab` is the title of the page.
  void write(const std::string& lab, const std::string& host) const;

 private:
  struct Recording;
  std::unique_ptr<Recording> recording_;  // null without --trace
};

}  // namespace brigade::labs
