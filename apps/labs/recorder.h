#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dist/comm/communicator.h"

namespace brigade::apps {
struct Options;
}

namespace brigade::labs {

/// What `--trace` adds to a lab: a clock that the lab tells where in a step it is. Without the flag
/// all calls do nothing.
///
///     start()  forward_done()  backward_done()  ... once per micro-batch ...  finish()
///
/// Backward is taken to include everything that brings gradients together: call backward_done()
/// when the optimizer may begin. A lab without a network calls neither: all is backward then. The
/// first steps pass unseen (--trace-skip), the next ones are recorded (--trace-steps). Collective,
/// like the steps.
class Recorder {
 public:
  /// `options`: the lab's flags, for `total_steps` steps. Both must outlive this.
  Recorder(const apps::Options& options, dist::Communicator& comm, int total_steps);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// A step begins, on all ranks at once.
  void start();
  void forward_done();
  void backward_done();
  void finish();

  /// Runs `move`, which sends `bytes` to other ranks while this one has nothing else to do: an
  /// exposed piece of communication. For what does not go through the Communicator.
  void transfer(const std::string& label, std::size_t bytes, const std::function<void()>& move);

  /// Writes trace.json.gz and timeline.html, and says where. `lab`: its name, for people.
  void write(const std::string& lab, const std::string& host) const;

 private:
  struct Recording;
  std::unique_ptr<Recording> recording_;  // null without --trace
};

}  // namespace brigade::labs
