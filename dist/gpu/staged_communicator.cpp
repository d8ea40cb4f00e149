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

/// The data of the host functions in the stream.
struct HostSide {
  std::unique_ptr<Communicator> comm;
  Tensor staging;  // pinned
  std::mutex mutex;
  std::deque<std::function<void()>> queue;  // one entry per host function, in stream order
  std::exception_ptr failure;               // the first error of a host function
};

/// Runs on a thread of the CUDA runtime, in stream order. It must not throw: the next call of the
/// communicator rethrows the exception, and the rest of the queue is skipped.
void CUDART_CB work_on_host(void* argument) {
  auto& host = *static_cast<HostSide*>(argument);
  std::unique_lock lock(host.mutex);
  const std::function<void()> work = std::move(host.queue.front());
  host.queue.pop_front();
  if (host.failure) {
    return;
  }
  lock.unlock();  // so that the rank's own thread can enqueue the next bucket
  try {
    work();
  } catch (...) {
    lock.lock();
    host.failure = std::current_exception();
  }
}

/// The host's part of an all-reduce is a host function in the CUDA stream, between the two copies.
/// So callers see a GPU communicator like NCCL's: its events are CUDA events, and the compute
/// stream and the host wait for a bucket only when they need it.
class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(std::unique_ptr<Communicator> host, Device device)
      : Communicator(host->rank(), host->size()),
        host_(std::make_unique<HostSide>()),
        stream_(make_comm_stream(device)) {
    host_->comm = std::move(host);
  }

  ~StagedCommunicator() override {
    if (std::uncaught_exceptions() > exceptions_at_start_) {
      // A host function may wait for a rank that is gone: do not wait for it, and keep its data.
      static_cast<void>(host_.release());
      return;
    }
    static_cast<void>(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_->native_handle())));
  }

  void abandon() noexcept override {
    host_->comm->abandon();
    Communicator::abandon();
  }

  void barrier() override { host().barrier(); }
  std::vector<std::byte> all_gather_bytes(std::span<const std::byte> mine) override {
    return host().all_gather_bytes(mine);
  }
  void broadcast(std::span<std::byte> bytes, int root) override { host().broadcast(bytes, root); }

 protected:
  std::string transport() const override {
    return fmt::format("{}, staged through host memory", host_->comm->description());
  }
  Stream& comm_stream() override { return *stream_; }

  void do_sum(const Tensor& tensor) override {
    const Tensor staging = reserve(tensor.numel(), tensor.dtype());
    copy(staging, tensor);
    on_host([staging](Collectives& ranks) { ranks.sum(staging); });
    copy(tensor, staging);
  }

  void do_exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                   const OnArrival& /*arrived*/) override {
    std::vector<Message> messages(outgoing.begin(), outgoing.end());
    messages.insert(messages.end(), incoming.begin(), incoming.end());
    std::int64_t bytes = 0;
    for (const Message& message : messages) {
      bytes += static_cast<std::int64_t>(message.tensor.nbytes());
    }
    const Tensor staging = reserve(bytes, DType::u8);
    std::vector<Message> staged;  // as `messages`, in host memory
    std::int64_t used = 0;
    for (const Message& message : messages) {
      const auto length = static_cast<std::int64_t>(message.tensor.nbytes());
      staged.push_back({message.peer, staging.flat_view(used, {length})});
      used += length;
    }
    const std::size_t sent = outgoing.size();
    for (std::size_t i = 0; i < sent; ++i) {
      copy(staged[i].tensor, messages[i].tensor);
    }
    on_host([staged, sent](Collectives& ranks) {
      ranks.exchange(std::span(staged).first(sent), std::span(staged).subspan(sent));
    });
    for (std::size_t i = sent; i < messages.size(); ++i) {
      copy(messages[i].tensor, staged[i].tensor);
    }
  }

 private:
  /// Pinned host memory. All tensors share one buffer, because the stream processes one after the
  /// other. It is replaced for a larger tensor or another dtype (the bitmaps of --find-unused);
  /// then this waits until the stream is idle.
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
  int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace

std::unique_ptr<Communicator> make_staged_communicator(std::unique_ptr<Communicator> host,
                                                       Device device) {
  BRIGADE_CHECK(device.is_cuda(), "staged: expected tensors on a GPU, got {}", device);
  return std::make_unique<StagedCommunicator>(std::move(host), device);
}

}  // namespace brigade::dist
