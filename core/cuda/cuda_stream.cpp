#include "core/cuda/cuda_stream.h"

#include <array>
#include <mutex>
#include <vector>

#include "core/cuda/launch.h"
#include "core/runtime/context.h"

namespace brigade {
namespace {

/// cudaEvent_t's that are not in use. Shared by a stream and its events, because an event may
/// outlive its stream.
///
/// A step records a few events per bucket, again and again; with the pool a steady step creates
/// none. Reuse is safe although another stream may still be told to wait for an old event:
/// cudaStreamWaitEvent notes the point the event marks at the moment of the call, and a later
/// record does not move it.
class EventPool {
 public:
  explicit EventPool(int device) : device_(device) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  ~EventPool() {
    for (const std::vector<cudaEvent_t>& events : free_) {
      for (cudaEvent_t event : events) {
        static_cast<void>(cudaEventDestroy(event));  // at exit the driver may be gone already
      }
    }
  }

  cudaEvent_t take(Timing timing) {
    {
      const std::lock_guard lock(mutex_);
      std::vector<cudaEvent_t>& events = free_[slot(timing)];
      if (!events.empty()) {
        cudaEvent_t event = events.back();
        events.pop_back();
        return event;
      }
    }
    cudaEvent_t event = nullptr;
    CUDA_CHECK(cudaSetDevice(device_));
    const unsigned flags = timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming;
    CUDA_CHECK(cudaEventCreateWithFlags(&event, flags));
    return event;
  }

  void give_back(cudaEvent_t event, Timing timing) {
    const std::lock_guard lock(mutex_);
    free_[slot(timing)].push_back(event);
  }

 private:
  static std::size_t slot(Timing timing) { return timing == Timing::on ? 1 : 0; }

  int device_;
  std::mutex mutex_;
  std::array<std::vector<cudaEvent_t>, 2> free_;  // [without timing, with timing]
};

class CudaEvent final : public EventState {
 public:
  CudaEvent(std::shared_ptr<EventPool> pool, Timing timing)
      : pool_(std::move(pool)), timing_(timing), event_(pool_->take(timing)) {}
  ~CudaEvent() override { pool_->give_back(event_, timing_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void record(cudaStream_t stream) { CUDA_CHECK(cudaEventRecord(event_, stream)); }

  bool done() const override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // not an error, but it would stick like one
      return false;
    }
    CUDA_CHECK(status);
    return true;
  }

  void synchronize(bool /*urgent*/) override {
    const ScopeName scope(kDeviceWait);
    CUDA_CHECK(cudaEventSynchronize(event_));
  }

  double ms_since(const EventState& begin) const override {
    const auto* other = dynamic_cast<const CudaEvent*>(&begin);
    BRIGADE_CHECK(other != nullptr, "elapsed_ms: expected two events of one device");
    BRIGADE_CHECK(timing_ == Timing::on && other->timing_ == Timing::on,
                  "elapsed_ms: expected events recorded with Timing::on");
    float ms = 0.0F;
    CUDA_CHECK(cudaEventElapsedTime(&ms, other->event_, event_));
    return static_cast<double>(ms);
  }

  void* native_handle() const override { return event_; }

 private:
  std::shared_ptr<EventPool> pool_;
  Timing timing_;
  cudaEvent_t event_;
};

class CudaStream final : public Stream {
 public:
  CudaStream(Device device, StreamPriority priority)
      : Stream(device), pool_(std::make_shared<EventPool>(device.index)) {
    CUDA_CHECK(cudaSetDevice(device.index));
    int least = 0;
    int greatest = 0;
    CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    const int level = priority == StreamPriority::high ? greatest : least;
    // Non-blocking: an ordinary stream would wait for whatever a library puts on the legacy default
    // stream.
    CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, level));
  }
  ~CudaStream() override { static_cast<void>(cudaStreamDestroy(stream_)); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void run(std::function<void()> work) override {
    CUDA_CHECK(cudaSetDevice(device().index));
    const UseStream operators(*this);  // not on the compute stream of this thread
    work();
  }

  Event record(Timing timing) override {
    auto event = std::make_shared<CudaEvent>(pool_, timing);
    event->record(stream_);
    return Event(std::move(event));
  }
  using Stream::record;

  void wait(const Event& event) override {
    if (event.native_handle() == nullptr) {
      event.synchronize();  // a CPU stream's event: the GPU cannot wait for it, so the host does
      return;
    }
    CUDA_CHECK(cudaStreamWaitEvent(stream_, static_cast<cudaEvent_t>(event.native_handle()), 0));
  }

  void* native_handle() const override { return stream_; }

 private:
  std::shared_ptr<EventPool> pool_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

std::unique_ptr<Stream> make_cuda_stream(Device device, StreamPriority priority) {
  return std::make_unique<CudaStream>(device, priority);
}

}  // namespace brigade
