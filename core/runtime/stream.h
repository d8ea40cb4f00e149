#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "core/device.h"

namespace brigade {

/// What an Event refers to; one implementation per kind of stream.
class EventState {
 public:
  virtual ~EventState() = default;
  virtual bool done() const = 0;
  /// Blocks the calling thread. `urgent`: it is a rank's own thread, which meanwhile computes
  /// nothing (Stream::someone_waits).
  virtual void synchronize(bool urgent) = 0;
  /// CPU: when its stream reached it; Error before that.
  virtual std::chrono::steady_clock::time_point time() const;
  /// GPU: see elapsed_ms.
  virtual double ms_since(const EventState& begin) const;
  virtual void* native_handle() const { return nullptr; }
};

/// One recorded point of a stream: "all work enqueued before me is finished". A cheap handle that
/// can be copied and outlive its stream. A default-constructed Event is already done, and so is one
/// that is nothing but a time: a trace takes two per span, so these cost no more than the clock.
class Event {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Event() = default;
  explicit Event(std::shared_ptr<EventState> state) : state_(std::move(state)) {}
  explicit Event(Time reached) : reached_(reached) {}

  bool done() const { return !state_ || state_->done(); }
  /// There is nothing to wait for, and nothing that could have failed before it.
  bool always_done() const { return state_ == nullptr; }
  /// False for one that was default-constructed.
  bool recorded() const { return state_ != nullptr || reached_ != Time(); }

  /// Blocks the calling thread. Rethrows what the stream's work threw before this point. Not
  /// `urgent`: the thread has nothing else to do, such as another stream's.
  void synchronize(bool urgent = true) const {
    if (state_) {
      state_->synchronize(urgent);
    }
  }

  /// cudaEvent_t, or null for an event of a CPU stream.
  void* native_handle() const { return state_ ? state_->native_handle() : nullptr; }

  /// Milliseconds between two finished events of one device, both recorded with Timing::on.
  /// Negative when `end` came first.
  friend double elapsed_ms(const Event& begin, const Event& end);

 private:
  Time time() const { return state_ ? state_->time() : reached_; }

  std::shared_ptr<EventState> state_;
  Time reached_;  // without a state
};

/// Whether an event also notes the time. On a GPU that makes recording slower; a WorkerStream's
/// events always do.
enum class Timing : bool { off, on };

/// A queue of work on one device, executed in order. Two streams run side by side; Events order
/// them.
///
/// CPU: InlineStream is the calling thread, so work is finished when run() returns; WorkerStream is
/// a thread of its own. CUDA: a cudaStream_t; run() lets `work` enqueue kernels, those of operators
/// too, and does not wait for them. The reducer needs no more than this, which is why it is the
/// same code on both devices.
class Stream {
 public:
  explicit Stream(Device device) : device_(device) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device device() const { return device_; }

  /// Executes `work` after all earlier work of this stream.
  virtual void run(std::function<void()> work) = 0;

  /// Marks this point of the stream.
  virtual Event record(Timing timing) = 0;
  Event record() { return record(Timing::off); }

  /// Later work of this stream starts only after `event`. Returns at once, except where the stream
  /// cannot wait by itself: an InlineStream, and a CUDA stream given a CPU stream's event.
  virtual void wait(const Event& event) = 0;

  /// Blocks the calling thread until everything enqueued so far is done; rethrows what it threw.
  void synchronize() { record().synchronize(); }

  /// cudaStream_t, or null on the CPU.
  virtual void* native_handle() const { return nullptr; }

  /// True while a rank's own thread is blocked on one of this stream's events: the one moment when
  /// work that polls (an MPI request) need not be polite to the thread that computes.
  virtual bool someone_waits() const { return false; }

 private:
  Device device_;
};

/// The calling thread as a stream. Whatever was enqueued is done, so an event without a time is one
/// that was default-constructed.
class InlineStream final : public Stream {
 public:
  InlineStream() : Stream(kCpu) {}
  void run(std::function<void()> work) override;
  Event record(Timing timing) override;
  void wait(const Event& event) override { event.synchronize(); }
  using Stream::record;
};

/// Which of two streams goes first. Communication gets `high`. On a GPU, a collective that has
/// become possible is then not stuck behind the backward kernels already queued. On a CPU, the
/// thread of a WorkerStream may interrupt a thread that computes: its work is short and urgent.
///
/// A WorkerStream with `normal` waits until the thread that woke it sleeps or has used up its time
/// slice. An update that becomes possible must not push the communication thread, which has just
/// received the gradients, off the core before that has sent the next ones.
enum class StreamPriority : bool { normal, high };

/// A thread that executes its queue first in, first out. After work has thrown, the rest of the
/// queue is skipped and every event recorded behind it rethrows. The destructor finishes the queue.
class WorkerStream final : public Stream {
 public:
  /// `name` shows up in debuggers and `top -H` (15 characters).
  explicit WorkerStream(const char* name, StreamPriority priority = StreamPriority::high);
  ~WorkerStream() override;
  void run(std::function<void()> work) override;
  Event record(Timing timing) override;
  void wait(const Event& event) override;
  bool someone_waits() const override;
  using Stream::record;

 private:
  struct Queue;
  std::unique_ptr<Queue> queue_;
  std::shared_ptr<std::atomic<int>> waiters_;  // shared with the events
};

/// A new stream for communication on `device`: a WorkerStream, or a high-priority CUDA stream.
std::unique_ptr<Stream> make_comm_stream(Device device);

/// A new stream for other work beside the computation: a WorkerStream called `name` that runs in
/// turn, or a CUDA stream of normal priority.
std::unique_ptr<Stream> make_side_stream(Device device, const char* name);

}  // namespace brigade
