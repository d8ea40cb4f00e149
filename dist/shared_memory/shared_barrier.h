#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace brigade::dist {

/// How a rank waits for its peers.
struct Patience {
  /// Somebody is blocked on the result, so this core has nothing better to do: watch for a moment
  /// before going to sleep. Otherwise the thread sleeps at once and leaves the core to the
  /// computation.
  std::function<bool()> in_a_hurry = [] { return false; };
  /// Asked several times a second; throws when there is no point in waiting any longer.
  std::function<void()> check = [] {};
};

/// A barrier in memory that several processes have mapped. All zero bytes are a new barrier.
///
/// Everything a rank wrote before arrive() is visible to all ranks after theirs.
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
