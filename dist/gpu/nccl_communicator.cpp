#include "dist/gpu/nccl_communicator.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "core/cuda/launch.h"
#include "core/error.h"
#include "dist/comm/fallback.h"
#include "dist/comm/gather.h"
#include "dist/gpu/nccl_check.h"

namespace brigade::dist {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{60};

/// "2.28.9"
std::string nccl_version() {
  int code = 0;
  NCCL_CHECK(nullptr, ncclGetVersion(&code));
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

bool on_one_host(Communicator& control) {
  std::array<char, 64> name{};
  static_cast<void>(gethostname(name.data(), name.size() - 1));
  const auto names = all_gather_values(control, name);
  return std::ranges::all_of(names, [&](const auto& other) { return other == names.front(); });
}

/// Configures NCCL, through its environment variables, for ranks that share a GPU. Must run before
/// the first NCCL call that reads them. Values that the user has set stay, except NCCL_HOSTID.
///
/// NCCL rejects two ranks with the same host and GPU, so each rank gets a host identity of its own.
/// NCCL 2.30 and later read NCCL_MULTI_RANK_GPU_ENABLE as well.
void share_gpu(Communicator& control) {
  setenv("NCCL_HOSTID", fmt::format("brigade-rank-{}", control.rank()).c_str(), 1);
  for (const char* enabled :
       {"NCCL_MULTI_RANK_GPU_ENABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE"}) {
    setenv(enabled, "1", 0);
  }
  for (const char* disabled : {"NCCL_MNNVL_ENABLE", "NCCL_RAS_ENABLE", "NCCL_NVLS_ENABLE"}) {
    setenv(disabled, "0", 0);
  }
  setenv("NCCL_NET", "Socket", 0);
  // The kernels of all ranks must run at the same time, so none may occupy the whole GPU.
  setenv("NCCL_MAX_CTAS", "2", 0);
  if (on_one_host(control)) {
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
  }
}

/// The first use of the GPU, which may fail on one rank alone. Throws on all ranks then: the others
/// would wait in NcclCommunicator::connect() for the rank that failed. Collective.
std::unique_ptr<Stream> open_stream(Communicator& control, Device device) {
  std::unique_ptr<Stream> stream;
  const std::string complaints =
      complaints_about(control, [&] { stream = make_comm_stream(device); });
  BRIGADE_CHECK(complaints.empty(), "nccl: no stream on the GPU: {}", complaints);
  return stream;
}

ncclDataType_t nccl_type(DType dtype) {
  BRIGADE_CHECK(dtype == DType::f32 || dtype == DType::f64,
                "all_reduce: expected a f32 or f64 tensor, got {}", dtype);
  return dtype == DType::f32 ? ncclFloat32 : ncclFloat64;
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::unique_ptr<Communicator> control, Device device, bool shared_gpu)
      : Communicator(control->rank(), control->size()),
        control_(std::move(control)),
        stream_(open_stream(*control_, device)),
        shared_gpu_(shared_gpu) {
    if (shared_gpu_) {
      share_gpu(*control_);
    }
    connect();
  }

  ~NcclCommunicator() override {
    // If this rank fails, other ranks may never join the collectives in flight: do not wait.
    if (failed_ || std::uncaught_exceptions() > exceptions_at_start_) {
      static_cast<void>(ncclCommAbort(comm_));
      return;
    }
    try {
      stream_->synchronize();
      complete(ncclCommFinalize(comm_), "ncclCommFinalize");
      static_cast<void>(ncclCommDestroy(comm_));
    } catch (const std::exception& error) {
      report_line(fmt::format("[rank {}] {}", rank(), error.what()));
      static_cast<void>(ncclCommAbort(comm_));
    }
  }

  void abandon() noexcept override {
    failed_ = true;
    control_->abandon();
    Communicator::abandon();
  }
  void barrier() override { control_->barrier(); }
  std::vector<std::byte> all_gather_bytes(std::span<const std::byte> mine) override {
    return control_->all_gather_bytes(mine);
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    control_->broadcast(bytes, root);
  }

 protected:
  std::string transport() const override {
    return fmt::format("NCCL {}{}", nccl_version(),
                       shared_gpu_ ? " (ranks share a GPU, through local sockets)" : "");
  }
  Stream& comm_stream() override { return *stream_; }

  void do_sum(const Tensor& tensor) override {
    if (tensor.numel() == 0) {
      return;
    }
    complete(ncclAllReduce(tensor.bytes(), tensor.bytes(), static_cast<std::size_t>(tensor.numel()),
                           nccl_type(tensor.dtype()), ncclSum, comm_, cuda::stream_of(*stream_)),
             "ncclAllReduce");
  }

  /// Sends and receives between ncclGroupStart and ncclGroupEnd start together, so two ranks can
  /// send to each other.
  void do_exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                   const OnArrival& /*arrived*/) override {
    cudaStream_t stream = cuda::stream_of(*stream_);
    NCCL_CHECK(comm_, ncclGroupStart());
    for (const Message& message : outgoing) {
      const Tensor& tensor = message.tensor;
      if (tensor.nbytes() > 0) {  // NCCL would wait for the peer for nothing
        static_cast<void>(
            ncclSend(tensor.bytes(), tensor.nbytes(), ncclUint8, message.peer, comm_, stream));
      }
    }
    for (const Message& message : incoming) {
      const Tensor& tensor = message.tensor;
      if (tensor.nbytes() > 0) {
        static_cast<void>(
            ncclRecv(tensor.bytes(), tensor.nbytes(), ncclUint8, message.peer, comm_, stream));
      }
    }
    complete(ncclGroupEnd(), "ncclSend and ncclRecv");
  }

 private:
  void connect() {
    // Rank 0 also broadcasts its result: if it throws, the others throw too instead of waiting.
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
    static_cast<void>(cuda::stream_of(*stream_));  // makes its GPU current, which NCCL uses
    try {
      complete(ncclCommInitRankConfig(&comm_, size(), invitation.id, rank(), &config),
               "ncclCommInitRankConfig");
    } catch (...) {
      if (comm_ != nullptr) {
        static_cast<void>(ncclCommAbort(comm_));
      }
      throw;
    }
  }

  /// Waits until a non-blocking NCCL call has completed. Only then is its collective enqueued on
  /// the stream, so an event recorded earlier would not wait for it.
  void complete(ncclResult_t result, const char* call) {
    const Clock::time_point deadline = Clock::now() + kPatience;
    while (result == ncclInProgress && Clock::now() < deadline) {
      BRIGADE_CHECK(!failed_, "{}: this rank has given up its collectives", call);
      std::this_thread::yield();
      const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result);
      result = asked == ncclSuccess ? result : asked;
    }
    if (result != ncclSuccess) {
      failed_ = true;
    }
    BRIGADE_CHECK(result != ncclInProgress,
                  "{}: no answer of the other ranks within {} s; check that all ranks run and "
                  "reach the same call, and the network between them (NCCL_SOCKET_IFNAME, "
                  "firewall; NCCL_DEBUG=INFO tells more)",
                  call, kPatience.count());
    BRIGADE_CHECK(result == ncclSuccess, "{}: {}: {}", call, ncclGetErrorString(result),
                  ncclGetLastError(comm_));
  }

  std::unique_ptr<Communicator> control_;
  std::unique_ptr<Stream> stream_;
  bool shared_gpu_;
  int exceptions_at_start_ = std::uncaught_exceptions();
  std::atomic<bool> failed_ = false;
  ncclComm_t comm_ = nullptr;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> control,
                                                     Device device, bool shared_gpu) {
  BRIGADE_CHECK(device.is_cuda(), "nccl: expected tensors on a GPU, got {}; use --comm mpi",
                device);
  return std::make_unique<NcclCommunicator>(std::move(control), device, shared_gpu);
}

}  // namespace brigade::dist
