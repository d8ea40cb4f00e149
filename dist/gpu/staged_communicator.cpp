#include "dist/gpu/staged_communicator.h"

#include <cuda_runtime_api.h>

#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "core/cuda/launch.h"
#include "core/runtime/pinned.h"

namespace brigade::dist {
namespace {

/// What the host functions in the stream work with.
struct HostSide {
  std::unique_ptr<Communicator> comm;
  Tensor staging;  // pinned
  std::mutex mutex;
  std::deque<std::function<void()>> queue;  // what the host functions will do, in stream order
  std::exception_ptr failure;               // the first error of a host function
};

/// On a thread of the CUDA runtime, in stream order. An exception must not leave it: it is kept for
/// the next call of the communicator, and what is still queued is skipped.
void CUDART_CB work_on_host(void* argument) {
  auto& host = *static_cast<HostSide*>(argument);
  std::unique_lock lock(host.mutex);
  const std::function<void()> work = std::move(host.queue.front());
  host.queue.pop_front();
  if (host.failure) {
    return;
  }
  lock.unlock();  // the rank's own thread enqueues the next bucket meanwhile
  try {
    work();
  } catch (...) {
    lock.lock();
    host.failure = std::current_exception();
  }
}

/// The host's part of an all-reduce is a host function in the CUDA stream, between the two copies.
/// To everyone else this is therefore a GPU communicator like NCCL's: its events are CUDA events,
/// and neither the compute stream nor the host waits for a bucket before it must.
class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(std::unique_ptr<Communicator> host, Device device)
      : Communicator(host->rank(), host->size()),
        host_(std::make_unique<HostSide>()),
        stream_(make_comm_stream(device)),
        exceptions_at_start_(std::uncaught_exceptions()) {
    host_->comm = std::move(host);
  }

  ~StagedCommunicator() override {
    if (std::uncaught_exceptions() > exceptions_at_start_) {
      // A host function may be waiting for a rank that is gone, so it is not waited for, and what
      // it uses must stay.
      static_cast<void>(host_.release());
      return;
    }
    static_cast<void>(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_->native_handle())));
  }
  StagedCommunicator(const StagedCommunicator&) = delete;
  StagedCommunicator& operator=(const StagedCommunicator&) = delete;

  void barrier() override { host().barrier(); }
  std::vector<std::byte> all_gather(std::span<const std::byte> mine) override {
    return host().all_gather(mine);
  }
  void broadcast(std::span<std::byte> bytes, int root) override { host().broadcast(bytes, root); }

 protected:
  std::string transport() const override {
    return message_of(host_->comm->description(), ", staged through host memory");
  }
  Stream& comm_stream() override { return *stream_; }

  void do_sum(const Tensor& tensor) override {
    const Tensor staging = reserve(tensor.numel(), tensor.dtype());
    copy(staging, tensor);
    on_host([staging](Collectives& ranks) { ranks.sum(staging); });
    copy(tensor, staging);
  }

  void do_exchange(std::span<const Message> outgoing, std::span<const Message> incoming) override {
    std::int64_t bytes = 0;
    for (const std::span<const Message> messages : {outgoing, incoming}) {
      for (const Message& message : messages) {
        bytes += static_cast<std::int64_t>(message.tensor.nbytes());
      }
    }
    const Tensor staging = reserve(bytes, DType::u8);
    std::int64_t used = 0;
    const auto stage = [&](std::span<const Message> messages) {
      std::vector<Message> staged;
      for (const Message& message : messages) {
        const auto length = static_cast<std::int64_t>(message.tensor.nbytes());
        staged.push_back({message.peer, staging.flat_view(used, {length})});
        used += length;
      }
      return staged;
    };
    const std::vector<Message> sent = stage(outgoing);
    const std::vector<Message> received = stage(incoming);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      copy(sent[i].tensor, outgoing[i].tensor);
    }
    on_host([sent, received](Collectives& ranks) { ranks.exchange(sent, received); });
    for (std::size_t i = 0; i < received.size(); ++i) {
      copy(incoming[i].tensor, received[i].tensor);
    }
  }

 private:
  /// Host memory. One buffer serves all tensors, for the stream takes them one after the other;
  /// only to replace it must the stream be idle: by a larger one in the first step, and where
  /// buckets and bitmaps take turns (--find-unused) by one of another dtype.
  Tensor reserve(std::int64_t count, DType dtype) {
    rethrow_failure();
    Tensor& staging = host_->staging;
    if (!staging.defined() || staging.dtype() != dtype || staging.numel() < count) {
      stream_->synchronize();
      staging = {};
      staging = empty_pinned({count}, dtype);
    }
    return staging.flat_view(0, {count});
  }

  /// In stream order, either way between host and GPU.
  void copy(const Tensor& to, const Tensor& from) {
    if (from.nbytes() > 0) {
      CUDA_CHECK(cudaMemcpyAsync(to.bytes(), from.bytes(), from.nbytes(), cudaMemcpyDefault,
                                 cuda::stream_of(*stream_)));
    }
  }

  /// `work` with the host's collectives, in stream order.
  void on_host(std::function<void(Collectives&)> work) {
    {
      const std::lock_guard lock(host_->mutex);
      host_->queue.emplace_back(
          [host = host_.get(), work = std::move(work)] { work(host->comm->host_collectives()); });
    }
    CUDA_CHECK(cudaLaunchHostFunc(cuda::stream_of(*stream_), work_on_host, host_.get()));
  }

  Communicator& host() {
    rethrow_failure();
    return *host_->comm;
  }

  void rethrow_failure() {
    const std::lock_guard lock(host_->mutex);
    if (host_->failure) {
      std::rethrow_exception(host_->failure);
    }
  }

  std::unique_ptr<HostSide> host_;
  std::unique_ptr<Stream> stream_;
  int exceptions_at_start_;
};

}  // namespace

std::unique_ptr<Communicator> make_staged_communicator(std::unique_ptr<Communicator> host,
                                                       Device device) {
  BRIGADE_CHECK(device.is_cuda(), "staged: expected tensors on a GPU, got ", device);
  return std::make_unique<StagedCommunicator>(std::move(host), device);
}

}  // namespace brigade::dist
