#include "apps/bench/blocking_mpi.h"

#include <algorithm>
#include <atomic>
#include <exception>

#include "dist/comm/mpi_check.h"

namespace brigade::dist {
namespace {

class BlockingMpiAllReduce final : public AllReduce {
 public:
  BlockingMpiAllReduce() { MPI_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm_)); }
  ~BlockingMpiAllReduce() override {
    // MPI_Comm_free is collective: on the way out of a failure it could hang.
    if (std::uncaught_exceptions() == 0) {
      MPI_Comm_free(&comm_);
    }
  }
  BlockingMpiAllReduce(const BlockingMpiAllReduce&) = delete;
  BlockingMpiAllReduce& operator=(const BlockingMpiAllReduce&) = delete;

  std::string name() const override { return "MPI_Allreduce, blocking"; }

  void run(Collectives& ranks, const Tensor& tensor) override {
    constexpr std::int64_t kLargestPiece = std::int64_t{1} << 30U;  // MPI counts are int
    dispatch_float(tensor.dtype(), [&]<class T>() {
      const MPI_Datatype type = sizeof(T) == sizeof(double) ? MPI_DOUBLE : MPI_FLOAT;
      for (std::int64_t begin = 0; begin < tensor.numel(); begin += kLargestPiece) {
        const auto count = static_cast<int>(std::min(kLargestPiece, tensor.numel() - begin));
        MPI_CHECK(
            MPI_Allreduce(MPI_IN_PLACE, tensor.data<T>() + begin, count, type, MPI_SUM, comm_));
      }
    });
    const auto size = static_cast<std::uint64_t>(ranks.size());
    bytes_sent_.fetch_add(2 * (size - 1) * tensor.nbytes() / size, std::memory_order_relaxed);
  }

  /// Counted as a library's sum is (Collectives::bytes_sent): how MPI does it, nobody tells.
  std::uint64_t bytes_sent() const override { return bytes_sent_.load(std::memory_order_relaxed); }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::atomic<std::uint64_t> bytes_sent_ = 0;  // written by the stream's thread, read by the rank's
};

}  // namespace

std::unique_ptr<AllReduce> make_blocking_mpi_all_reduce() {
  return std::make_unique<BlockingMpiAllReduce>();
}

}  // namespace brigade::dist
