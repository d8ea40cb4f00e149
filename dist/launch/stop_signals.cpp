#include "dist/launch/stop_signals.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <mutex>

namespace brigade::dist {
namespace {

/// What signals have asked for since the last take().
std::atomic<SignalRequest> request{SignalRequest::none};
std::atomic<bool> ends = false;
static_assert(std::atomic<SignalRequest>::is_always_lock_free, "signal handlers may not lock");

void ask_for_checkpoint(int /*signal*/) {
  SignalRequest none = SignalRequest::none;
  request.compare_exchange_strong(none, SignalRequest::save);
}

void ask_for_end(int /*signal*/) {
  ends = true;
  request = SignalRequest::stop;
}

void end_soon(int /*signal*/) {
  constexpr unsigned int kSeconds = 8;  // a watch has named a lost rank after 6
  alarm(kSeconds);
}

void end_now(int /*signal*/) {
  std::signal(SIGTERM, SIG_DFL);
  std::raise(SIGTERM);
}

/// Handles one signal as long as it lives.
class Handler {
 public:
  Handler(int signal, void (*handler)(int), unsigned int flags) : signal_(signal) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = static_cast<int>(SA_RESTART | SA_ONSTACK | flags);
    sigaction(signal, &action, &before_);
  }
  ~Handler() { sigaction(signal_, &before_, nullptr); }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

 private:
  int signal_;
  struct sigaction before_ {};
};

}  // namespace

class LastWords::Handlers {
  Handler terminate_{SIGTERM, end_soon, 0};
  Handler expire_{SIGALRM, end_now, 0};
};

LastWords::LastWords() : handlers_(std::make_shared<Handlers>()) {}

class StopSignals::Handlers {
  Handler save_{SIGUSR1, ask_for_checkpoint, 0};
  Handler terminate_{SIGTERM, ask_for_end, 0};
  Handler interrupt_{SIGINT, ask_for_end, SA_RESETHAND};
};

SignalStack::SignalStack()
    // The frame holds all vector and matrix registers: some 11 KiB with AMX.
    : memory_(getauxval(AT_MINSIGSTKSZ) + (std::size_t{32} << 10U)) {
  stack_t stack{};
  stack.ss_sp = memory_.data();
  stack.ss_size = memory_.size();
  sigaltstack(&stack, &before_);
}

SignalStack::~SignalStack() {
  sigaltstack(&before_, nullptr);
}

StopSignals::StopSignals() {
  static std::mutex mutex;
  static std::weak_ptr<Handlers> shared;  // of the process, like the signals themselves
  const std::lock_guard lock(mutex);
  handlers_ = shared.lock();
  if (!handlers_) {
    shared = handlers_ = std::make_shared<Handlers>();
  }
}

SignalRequest StopSignals::take() {
  return request.exchange(SignalRequest::none);
}

bool StopSignals::asked_to_end() {
  return ends;
}

}  // namespace brigade::dist
