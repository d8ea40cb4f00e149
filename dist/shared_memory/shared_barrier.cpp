#include "dist/shared_memory/shared_barrier.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <ctime>
#include <thread>

namespace brigade::dist {
namespace {

using Word = std::atomic<std::uint32_t>;
static_assert(sizeof(Word) == sizeof(std::uint32_t) && Word::is_always_lock_free,
              "the kernel and other processes see the word itself");

// std::atomic::wait would do within one process: it uses the private kind of futex, which the
// kernel finds by address. Here every process has the word at an address of its own.
void futex(Word& word, int operation, std::uint32_t value, const timespec* timeout) {
  syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

void SharedBarrier::arrive(int ranks, const WaitPolicy& policy) {
  // Cannot be stale: this rank has seen the last round end, and the next one cannot without it.
  const std::uint32_t round = round_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(ranks)) {
    arrived_.store(0, std::memory_order_relaxed);
    round_.store(round + 1, std::memory_order_release);
    futex(round_, FUTEX_WAKE, INT_MAX, nullptr);
    return;
  }
  // Peers that run on cores of their own arrive within microseconds, less than a wake-up takes. If
  // they share a core, yielding lets them run.
  constexpr std::chrono::microseconds kSpin{50};
  const auto end = std::chrono::steady_clock::now() + kSpin;
  while (policy.spin_first() && round_.load(std::memory_order_acquire) == round &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  // Sleeps until the round changes, for at most a tenth of a second. If the round has changed
  // already, the kernel returns at once: no wake-up can be missed.
  constexpr timespec kInterval{.tv_sec = 0, .tv_nsec = 100'000'000};
  while (round_.load(std::memory_order_acquire) == round) {
    policy.check();
    futex(round_, FUTEX_WAIT, round, &kInterval);
  }
}

}  // namespace brigade::dist
