// Ranks that are threads, each with a GPU of its own.
#include "core/config.h"
#include "core/error.h"
#include "core/runtime/context.h"
#include "dist/gpu/nccl_communicator.h"
#include "tests/gpu/two_gpus.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

class NcclOnTwoGpus : public TwoGpusTest {
 protected:
  void SetUp() override {
    TwoGpusTest::SetUp();
    if (!IsSkipped() && !kHasNccl) {
      GTEST_SKIP() << "this build has no NCCL";
    }
  }

  static Device device_of(const Communicator& comm) { return {DeviceType::cuda, comm.rank()}; }

  /// Collective.
  static std::unique_ptr<Communicator> make(Communicator& comm) {
    return make_nccl_communicator(comm.split(0, comm.rank()), device_of(comm), false);
  }
};

TEST_F(NcclOnTwoGpus, AnExceptionDoesNotWaitForRanksThatNeverCome) {
  test::thread_world(2, [](Communicator& threads) {
    const Tensor x = Tensor::zeros({100}, DType::f32, device_of(threads));
    try {
      const auto comm = make(threads);
      comm->blocking_all_reduce(x);  // NCCL's connections are made in the first collective
      compute_stream(device_of(threads)).synchronize();
      threads.barrier();
      if (threads.rank() == 0) {
        comm->all_reduce(x);
      }
      throw Error("this rank fails");
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "this rank fails");
    }
    threads.barrier();
    compute_stream(device_of(threads)).synchronize();
  });
}

}  // namespace
}  // namespace brigade::dist
