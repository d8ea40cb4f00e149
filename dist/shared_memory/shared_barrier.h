#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace brigade::dist {

/// How a rank waits for its peers.
struct WaitPolicy {
  /// True if the rank's own thread is blocked on the result: then spin shortly before sleeping.
  /// Otherwise sleep at once and leave the core to the computation.
  std::function<bool()> spin_first = [] { return false; };
  /// Called several times per second while waiting; throws to stop waiting.
  std::function<void()> check = [] {};
};

/// A barrier between processes that map the same memory. Zero bytes are a valid new barrier.
///
/// What a rank wrote before arrive() is visible to all ranks after their arrive().
class SharedBarrier {
 public:
  /// Blocks until all `ranks` have called it.
  void arrive(int ranks, const WaitPolicy& policy);

 private:
  std::atomic<std::uint32_t> arrived_ = 0;  // in this round
  std::atomic<std::uint32_t> round_ = 0;    // waiting ranks sleep until it changes
};

}  // namespace brigade::dist
