#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace brigade::dist {

/// How a rank waits for its peers.
struct Patience {
  /// True if the rank's own thread is blocked on the result: then spin shortly before sleeping.
  /// Otherwise sleep at once and leave the core to the computation.
  std::function<bool()> in_a_hurry = [] { return false; };
  /// Called several times per second while waiting; throws to stop waiting.
  std::function<void()> check = [] {};
};

/// A barrier between processes that map the same memory. Zero bytes are a valid new barrier.
///
/// What a rank wrote before arrive() is visible to all ranks after their arrive().
class SharedBarrier {
 public:
  /// Blocks until all `ranks` have called it.
  void arrive(int ranks, const Patience& patience);

 private:
  void sleep_while(std::uint32_t round);

  std::atomic<std::uint32_t> arrived_ = 0;  // in this round
  std::atomic<std::uint32_t> round_ = 0;    // sleepers wait for it to change
};

}  // namespace brigade::dist
