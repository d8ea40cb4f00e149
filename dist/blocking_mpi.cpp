#include "dist/blocking_mpi.h"

#include <algorithm>
#include <exception>

#include "dist/mpi_check.h"

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

  void run(Collectives& /*ranks*/, const Tensor& tensor) override {
    constexpr std::int64_t kLargestPiece = std::int64_t{1} << 30U;  // MPI counts are int
    dispatch_float(tensor.dtype(), [&]<class T>() {
      const MPI_Datatype type = sizeof(T) == sizeof(double) ? MPI_DOUBLE : MPI_FLOAT;
      for (std::int64_t begin = 0; begin < tensor.numel(); begin += kLargestPiece) {
        const auto count = static_cast<int>(std::min(kLargestPiece, tensor.numel() - begin));
        MPI_CHECK(
            MPI_Allreduce(MPI_IN_PLACE, tensor.data<T>() + begin, count, type, MPI_SUM, comm_));
      }
    });
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace

std::unique_ptr<AllReduce> make_blocking_mpi_all_reduce() {
  return std::make_unique<BlockingMpiAllReduce>();
}

}  // namespace brigade::dist
