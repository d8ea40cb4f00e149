#include <atomic>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tests/cuda_emulator/streams_private.h"

namespace emulator {
namespace {

std::mutex& streams_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
std::vector<cudaStream_t>& streams() {
  static auto* all = new std::vector<cudaStream_t>;
  return *all;
}

/// Of the event's last record, or null.
std::shared_ptr<Moment> moment_of(cudaEvent_t event) {
  const std::lock_guard lock(event->mutex);
  return event->moment;
}

}  // namespace

void Moment::come() {
  const std::lock_guard lock(mutex_);
  come_ = true;
  time_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}
void Moment::await() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return come_; });
}
bool Moment::has_come() const {
  const std::lock_guard lock(mutex_);
  return come_;
}
std::chrono::steady_clock::time_point Moment::time() const {
  const std::lock_guard lock(mutex_);
  return time_;
}

void drain_all_streams() {
  std::vector<cudaStream_t> all;
  {
    const std::lock_guard lock(streams_mutex());
    all = streams();
  }
  for (cudaStream_t stream : all) {
    stream->drain();
  }
}

unsigned seed_of_next_stream() {
  static std::atomic<int> streams_made = 0;
  const int rank = setting("OMPI_COMM_WORLD_RANK", 0);
  return static_cast<unsigned>(setting("EMULATOR_SEED", 1) + 1000 * ++streams_made + 100000 * rank);
}

void submit(cudaStream_t stream, Work work) {
  if (stream == nullptr) {
    refuse(cudaErrorInvalidResourceHandle, "work for the null stream, which is not emulated");
    std::abort();
  }
  stream->push(std::move(work));
}

}  // namespace emulator

using emulator::answer;
using emulator::refuse;

void CUstream_st::serve() {
  static const int delay_us = emulator::setting("EMULATOR_DELAY_US", 0);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return retired_ || !queue_.empty(); });
    if (queue_.empty()) {
      return;
    }
    {
      const emulator::Work work = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      if (delay_us > 0) {
        std::this_thread::sleep_for(
            std::chrono::microseconds(random_() % static_cast<unsigned>(delay_us)));
      }
      work();
    }
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void CUstream_st::push(emulator::Work work) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  changed_.notify_all();
}

void CUstream_st::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

void CUstream_st::retire() {
  const std::lock_guard lock(mutex_);
  retired_ = true;
  changed_.notify_all();
  thread_.detach();
}

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  *stream = new CUstream_st(flags, priority);
  const std::lock_guard lock(emulator::streams_mutex());
  emulator::streams().push_back(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  stream->retire();  // and remains in the list: cudaFree() waits for what it still has to do
  return cudaSuccess;
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  *flags = stream->flags;
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  *priority = stream->priority;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream->drain();
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  emulator::drain_all_streams();
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  emulator::submit(stream, [=] { function(argument); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st;
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(event->mutex);
  event->moment = std::make_shared<emulator::Moment>();
  emulator::submit(stream, [moment = event->moment] { moment->come(); });
  return cudaSuccess;
}

/// As on a GPU: waits for the last record before this call, whatever is recorded later.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  if (flags != cudaEventWaitDefault) {
    return refuse(cudaErrorNotSupported, "cudaStreamWaitEvent with flags is not emulated");
  }
  if (const auto moment = emulator::moment_of(event)) {
    emulator::submit(stream, [moment] { moment->await(); });
  }
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const auto moment = emulator::moment_of(event);
  return moment == nullptr || moment->has_come() ? cudaSuccess : answer(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const auto moment = emulator::moment_of(event)) {
    moment->await();
  }
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  const auto from = emulator::moment_of(begin);
  const auto to = emulator::moment_of(end);
  if (from == nullptr || to == nullptr || !begin->timed || !end->timed) {
    return refuse(cudaErrorInvalidValue, "cudaEventElapsedTime: an event without a time");
  }
  if (!from->has_come() || !to->has_come()) {
    return answer(cudaErrorNotReady);
  }
  *ms = std::chrono::duration<float, std::milli>(to->time() - from->time()).count();
  return cudaSuccess;
}

}  // extern "C"
