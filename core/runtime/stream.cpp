#include "core/runtime/stream.h"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/config.h"
#include "core/cuda/cuda_stream.h"
#include "core/error.h"

namespace brigade {
namespace {

using Clock = std::chrono::steady_clock;

/// A point of a queue. complete() is called by the stream, once.
class QueuedEvent final : public EventState {
 public:
  explicit QueuedEvent(std::shared_ptr<std::atomic<int>> waiters) : waiters_(std::move(waiters)) {}

  /// The time is noted before anyone is woken: how long a waiter takes to get a core is not part of
  /// what the stream did.
  void complete(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    time_ = Clock::now();
    failure_ = std::move(failure);
    done_ = true;
    changed_.notify_all();
  }

  bool done() const override {
    const std::lock_guard lock(mutex_);
    return done_;
  }

  void synchronize(bool urgent) override {
    std::unique_lock lock(mutex_);
    if (!done_) {
      waiters_->fetch_add(urgent ? 1 : 0);
      changed_.wait(lock, [this] { return done_; });
      waiters_->fetch_sub(urgent ? 1 : 0);
    }
    if (failure_) {
      std::rethrow_exception(failure_);
    }
  }

  Clock::time_point time() const override {
    const std::lock_guard lock(mutex_);
    BRIGADE_CHECK(done_, "elapsed_ms: expected two finished events");
    return time_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Clock::time_point time_;
  std::exception_ptr failure_;
  std::shared_ptr<std::atomic<int>> waiters_;
};

}  // namespace

Clock::time_point EventState::time() const {
  throw_error(__FILE__, __LINE__, "elapsed_ms: expected two events of one device");
}

double EventState::ms_since(const EventState& /*begin*/) const {
  throw_error(__FILE__, __LINE__, "elapsed_ms: expected two events of one device");
}

double elapsed_ms(const Event& begin, const Event& end) {
  BRIGADE_CHECK(begin.recorded() && end.recorded(), "elapsed_ms: expected two recorded events");
  if (begin.native_handle() != nullptr && end.native_handle() != nullptr) {
    return end.state_->ms_since(*begin.state_);
  }
  return std::chrono::duration<double, std::milli>(end.time() - begin.time()).count();
}

void InlineStream::run(std::function<void()> work) {
  work();
}

// The work before this point is done: run() does not return earlier. So only the time is news.
Event InlineStream::record(Timing timing) {
  if (timing == Timing::off) {
    return {};
  }
  return Event(Clock::now());
}

struct WorkerStream::Queue {
  /// Work, or the completion of an event: the latter also happens after a failure.
  struct Item {
    std::function<void()> work;
    std::shared_ptr<QueuedEvent> event;
  };

  void push(Item item) {
    const std::lock_guard lock(mutex);
    items.push_back(std::move(item));
    changed.notify_one();
  }

  /// The whole life of the stream's thread. The lock is open while work runs, so that others can
  /// enqueue meanwhile. It ends when asked to and nothing is left: a destructor finishes the queue.
  ///
  /// It takes all there is at a time and leaves an empty list in its place: in a steady step
  /// neither list grows, and nothing is allocated.
  void serve() {
    std::exception_ptr failure;  // the first one; every event recorded behind it gets it
    std::vector<Item> taken;
    for (std::unique_lock lock(mutex);;) {
      changed.wait(lock, [this] { return stopping || !items.empty(); });
      if (items.empty()) {
        return;
      }
      std::swap(taken, items);
      lock.unlock();
      for (Item& next : taken) {
        const Item item = std::move(next);
        if (item.event) {
          item.event->complete(failure);
        } else if (!failure) {
          try {
            item.work();
          } catch (...) {
            failure = std::current_exception();
          }
        }
      }
      taken.clear();
      lock.lock();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Item> items;
  bool stopping = false;
  std::thread thread;
};

WorkerStream::WorkerStream(const char* name, StreamPriority priority)
    : Stream(kCpu),
      queue_(std::make_unique<Queue>()),
      waiters_(std::make_shared<std::atomic<int>>(0)) {
  queue_->thread = std::thread([queue = queue_.get()] { queue->serve(); });
  pthread_setname_np(queue_->thread.native_handle(), name);
  if (priority == StreamPriority::normal) {
    // Linux: a SCHED_BATCH thread never preempts when it wakes up (sched(7)). Needs no privilege;
    // where it is refused all the same, the thread runs like any other.
    const sched_param none{};
    pthread_setschedparam(queue_->thread.native_handle(), SCHED_BATCH, &none);
  }
}

WorkerStream::~WorkerStream() {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->stopping = true;
    queue_->changed.notify_one();
  }
  queue_->thread.join();
}

void WorkerStream::run(std::function<void()> work) {
  queue_->push({.work = std::move(work), .event = nullptr});
}

// An event shares the counter of waiters, because it may outlive its stream.
Event WorkerStream::record(Timing /*timing*/) {
  auto event = std::make_shared<QueuedEvent>(waiters_);
  queue_->push({.work = nullptr, .event = event});
  return Event(std::move(event));
}

// The wait is work of this stream: its own thread sleeps, and the caller goes on. Not urgent,
// because nobody's computation waits for it yet.
void WorkerStream::wait(const Event& event) {
  if (event.always_done()) {
    return;
  }
  run([event] { event.synchronize(/*urgent=*/false); });
}

bool WorkerStream::someone_waits() const {
  return waiters_->load(std::memory_order_relaxed) > 0;
}

namespace {

std::unique_ptr<Stream> make_stream(Device device, const char* name, StreamPriority priority) {
  if constexpr (kHasCuda) {
    if (device.is_cuda()) {
      return make_cuda_stream(device, priority);
    }
  }
  BRIGADE_CHECK(!device.is_cuda(), "stream: {} asked of a build without CUDA", device);
  return std::make_unique<WorkerStream>(name, priority);
}

}  // namespace

std::unique_ptr<Stream> make_comm_stream(Device device) {
  return make_stream(device, "brigade-comm", StreamPriority::high);
}

std::unique_ptr<Stream> make_side_stream(Device device, const char* name) {
  return make_stream(device, name, StreamPriority::normal);
}

}  // namespace brigade
