#include "dist/gpu/nccl_communicator.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "core/cuda/launch.h"
#include "dist/gpu/nccl_check.h"
#include "dist/launch/fallback.h"

namespace brigade::dist {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{60};

// From this version on NCCL has an official switch for several ranks on one GPU.
constexpr int kMultiRankVersion = 23000;

int version_code() {
  int code = 0;
  NCCL_CHECK(nullptr, ncclGetVersion(&code));  // reads no environment: may come before share_gpu()
  return code;
}

/// "2.28.9"
std::string nccl_version() {
  const int code = version_code();
  return message_of(code / 10000, ".", code / 100 % 100, ".", code % 100);
}

bool on_one_host(Communicator& control) {
  std::array<char, 64> name{};
  static_cast<void>(gethostname(name.data(), name.size() - 1));
  const auto names = all_gather_values(control, name);
  return std::ranges::all_of(names, [&](const auto& other) { return other == names.front(); });
}

/// Prepares NCCL for ranks that share a GPU. It takes two ranks for duplicates when they agree in
/// host and GPU, so each gets a host identity of its own. What NCCL would try between real hosts
/// (InfiniBand, NVLink multicast) is switched off unless the user has said otherwise. Only works
/// before the first NCCL call that reads the environment.
void share_gpu(Communicator& control) {
  if (version_code() >= kMultiRankVersion) {
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
    setenv("NCCL_P2P_DISABLE", "1", 0);  // as between the hosts that older versions take them for
    setenv("NCCL_SHM_DISABLE", "1", 0);
  } else {
    setenv("NCCL_HOSTID", message_of("brigade-rank-", control.rank()).c_str(), 1);
  }
  setenv("NCCL_NET", "Socket", 0);
  setenv("NCCL_IB_DISABLE", "1", 0);
  setenv("NCCL_MNNVL_ENABLE", "0", 0);
  setenv("NCCL_RAS_ENABLE", "0", 0);
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  // The ranks' collectives must all be on the GPU at once to meet each other: none may take it
  // whole.
  setenv("NCCL_MAX_CTAS", "2", 0);
  if (on_one_host(control)) {
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  }
}

/// The first use of the GPU, which may fail on one rank alone. All hear of it: a rank that went on
/// would wait in NcclCommunicator::connect() for one that never comes. Collective.
std::unique_ptr<Stream> open_stream(Communicator& control, Device device) {
  std::unique_ptr<Stream> stream;
  const std::string complaints =
      complaints_about(control, [&] { stream = make_comm_stream(device); });
  BRIGADE_CHECK(complaints.empty(), "nccl: no stream on the GPU: ", complaints);
  return stream;
}

ncclDataType_t nccl_type(DType dtype) {
  BRIGADE_CHECK(dtype == DType::f32 || dtype == DType::f64,
                "all_reduce: expected a f32 or f64 tensor, got ", dtype);
  return dtype == DType::f32 ? ncclFloat32 : ncclFloat64;
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::unique_ptr<Communicator> control, Device device, bool shared_gpu)
      : Communicator(control->rank(), control->size()),
        control_(std::move(control)),
        stream_(open_stream(*control_, device)),
        shared_gpu_(shared_gpu),
        exceptions_at_start_(std::uncaught_exceptions()) {
    if (shared_gpu_) {
      share_gpu(*control_);
    }
    connect();
  }

  ~NcclCommunicator() override {
    // With an exception on its way out, other ranks may never take part in what is in flight: do
    // not wait for it.
    if (failed_ || std::uncaught_exceptions() > exceptions_at_start_) {
      static_cast<void>(ncclCommAbort(comm_));
      return;
    }
    try {
      stream_->synchronize();
      settle(ncclCommFinalize(comm_), "ncclCommFinalize");
      static_cast<void>(ncclCommDestroy(comm_));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "[rank %d] %s\n", rank(), error.what());
      static_cast<void>(ncclCommAbort(comm_));
    }
  }

  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  void abandon() noexcept override {
    failed_ = true;
    control_->abandon();
    Communicator::abandon();
  }
  void barrier() override { control_->barrier(); }
  std::vector<std::byte> all_gather(std::span<const std::byte> mine) override {
    return control_->all_gather(mine);
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    control_->broadcast(bytes, root);
  }

 protected:
  std::string transport() const override {
    return message_of("NCCL ", nccl_version(),
                      shared_gpu_ ? " (ranks share a GPU, through local sockets)" : "");
  }
  Stream& comm_stream() override { return *stream_; }

  void do_sum(const Tensor& tensor) override {
    if (tensor.numel() == 0) {
      return;
    }
    settle(ncclAllReduce(tensor.bytes(), tensor.bytes(), static_cast<std::size_t>(tensor.numel()),
                         nccl_type(tensor.dtype()), ncclSum, comm_, cuda::stream_of(*stream_)),
           "ncclAllReduce");
  }

  /// Between ncclGroupStart and ncclGroupEnd sends and receives start together, so ranks that send
  /// to each other do not wait for each other.
  void do_exchange(std::span<const Message> outgoing, std::span<const Message> incoming) override {
    cudaStream_t stream = cuda::stream_of(*stream_);
    NCCL_CHECK(comm_, ncclGroupStart());
    for (const Message& message : outgoing) {
      const Tensor& tensor = message.tensor;
      static_cast<void>(
          ncclSend(tensor.bytes(), tensor.nbytes(), ncclUint8, message.peer, comm_, stream));
    }
    for (const Message& message : incoming) {
      const Tensor& tensor = message.tensor;
      static_cast<void>(
          ncclRecv(tensor.bytes(), tensor.nbytes(), ncclUint8, message.peer, comm_, stream));
    }
    settle(ncclGroupEnd(), "ncclSend and ncclRecv");
  }

 private:
  void connect() {
    // Rank 0's failure travels with the id, or the others would wait for it here.
    struct Invitation {
      ncclUniqueId id;
      ncclResult_t result;
    } invitation{};
    if (rank() == 0) {
      invitation.result = ncclGetUniqueId(&invitation.id);
    }
    control_->broadcast(std::as_writable_bytes(std::span(&invitation, 1)), 0);
    NCCL_CHECK(nullptr, invitation.result);

    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // calls return at once: a missing rank becomes an error, not a hang
    if (shared_gpu_) {
      config.maxCTAs = 2;
    }
    static_cast<void>(cuda::stream_of(*stream_));  // NCCL takes the GPU that is current
    try {
      settle(ncclCommInitRankConfig(&comm_, size(), invitation.id, rank(), &config),
             "ncclCommInitRankConfig");
    } catch (...) {
      if (comm_ != nullptr) {
        static_cast<void>(ncclCommAbort(comm_));
      }
      throw;
    }
  }

  /// Waits until a call of the non-blocking communicator has really been carried out. Before that
  /// neither the stream nor an event on it may be touched: the collective might not be enqueued
  /// yet.
  void settle(ncclResult_t result, const char* call) {
    const Clock::time_point deadline = Clock::now() + kPatience;
    while (result == ncclInProgress && Clock::now() < deadline) {
      std::this_thread::yield();
      const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result);
      result = asked == ncclSuccess ? result : asked;
    }
    if (result != ncclSuccess) {
      failed_ = true;
    }
    BRIGADE_CHECK(
        result != ncclInProgress, call, ": no answer of the other ranks within ", kPatience.count(),
        " s; check that all ranks run and reach the same call, and the network between them "
        "(NCCL_SOCKET_IFNAME, firewall; NCCL_DEBUG=INFO tells more)");
    BRIGADE_CHECK(result == ncclSuccess, call, ": ", ncclGetErrorString(result), ": ",
                  ncclGetLastError(comm_));
  }

  std::unique_ptr<Communicator> control_;
  std::unique_ptr<Stream> stream_;
  bool shared_gpu_;
  int exceptions_at_start_;
  std::atomic<bool> failed_ = false;
  ncclComm_t comm_ = nullptr;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> control,
                                                     Device device, bool shared_gpu) {
  BRIGADE_CHECK(device.is_cuda(), "nccl: expected tensors on a GPU, got ", device,
                "; use --comm mpi");
  return std::make_unique<NcclCommunicator>(std::move(control), device, shared_gpu);
}

}  // namespace brigade::dist
