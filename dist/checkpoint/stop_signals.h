#pragma once

#include <cstdint>
#include <memory>

namespace brigade::dist {

/// What a signal asks a training to do when its step is done. A larger one includes the smaller.
enum class SignalRequest : std::uint8_t { none, save, stop };

/// While one lives in the process, SIGUSR1 asks for a checkpoint, SIGTERM and SIGINT for a
/// checkpoint and the end. A second signal of these two acts as if nobody had caught it. Ranks that
/// are threads have one each and share the requests.
class StopSignals {
 public:
  StopSignals();

  /// The largest request since the last call in this process.
  static SignalRequest take();

 private:
  class Handlers;
  std::shared_ptr<Handlers> handlers_;
};

}  // namespace brigade::dist
