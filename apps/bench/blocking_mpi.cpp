#include "apps/bench/blocking_mpi.h"

#include <algorithm>

#include "dist/comm/mpi_check.h"

namespace brigade::apps {
namespace {

class BlockingMpiAllReduce final : public dist::AllReduce {
 public:
  std::string name() const override { return "MPI_Allreduce, blocking"; }

  void run(dist::Collectives& /*ranks*/, const Tensor& tensor) override {
    constexpr std::int64_t kMaxCount = std::int64_t{1} << 30U;  // MPI counts are int
    dispatch_float(tensor.dtype(), [&]<class T>() {
      const MPI_Datatype type = sizeof(T) == sizeof(double) ? MPI_DOUBLE : MPI_FLOAT;
      for (std::int64_t begin = 0; begin < tensor.numel(); begin += kMaxCount) {
        const auto count = static_cast<int>(std::min(kMaxCount, tensor.numel() - begin));
        MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, tensor.data<T>() + begin, count, type, MPI_SUM,
                                MPI_COMM_WORLD));
      }
    });
  }
};

}  // namespace

std::unique_ptr<dist::AllReduce> make_blocking_mpi_all_reduce() {
  return std::make_unique<BlockingMpiAllReduce>();
}

}  // namespace brigade::apps
