#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace brigade::dist {

/// What a signal asks a training to do when its step is done. A larger one includes the smaller.
enum class SignalRequest : std::uint8_t { none, save, stop };

/// A stack for this thread's signal handlers. Without one the kernel writes a handler's frame
/// below the interrupted thread's stack pointer, and oneDNN's generated code keeps addresses of
/// the heap in that register: a signal during a matrix product then overwrites memory (seen with
/// oneDNN 2.6.3).
class SignalStack {
 public:
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::vector<std::byte> memory_;
  stack_t before_{};
};

/// While one lives in the process, SIGUSR1 asks for a checkpoint, SIGTERM and SIGINT for a
/// checkpoint and the end. A second SIGINT acts as if nobody had caught it. Ranks that
/// are threads have one each and share the requests.
class StopSignals {
 public:
  StopSignals();

  /// The largest request since the last call in this process.
  static SignalRequest take();
  /// Whether SIGTERM or SIGINT has ever come.
  static bool asked_to_end();

 private:
  class Handlers;

  SignalStack stack_;  // of the main thread, which the kernel prefers for a process's signals
  std::shared_ptr<Handlers> handlers_;
};

/// While one lives, SIGTERM ends the process after 8 s instead of at once. `srun -K` sends SIGTERM
/// to all ranks when one is lost. The others need these seconds to find and name the lost rank. A
/// StopSignals that is made later takes the signal over.
class LastWords {
 public:
  LastWords();

 private:
  class Handlers;

  SignalStack stack_;  // of the main thread
  std::shared_ptr<Handlers> handlers_;
};

}  // namespace brigade::dist
