// Ranks whose collectives go through the host, where these fail or never come.
#include <cuda_runtime_api.h>

#include <latch>
#include <memory>

#include "core/context.h"
#include "core/error.h"
#include "dist/staged_communicator.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/expect_error.h"
#include "tests/support/idle_communicator.h"

namespace brigade::dist {
namespace {

using StagedOnGpu = GpuTest;

/// One of two ranks. Its sums wait for `released` and fail.
class Broken final : public test::IdleCommunicator {
 public:
  explicit Broken(std::shared_ptr<std::latch> released)
      : IdleCommunicator(0, 2), released_(std::move(released)) {}

 protected:
  void do_sum(const Tensor& /*tensor*/) override {
    released_->wait();
    throw Error("the network is gone");
  }

 private:
  std::shared_ptr<std::latch> released_;
};

TEST_F(StagedOnGpu, TheNextCallTellsWhatFailedOnTheHost) {
  const auto released = std::make_shared<std::latch>(0);
  const auto comm = make_staged_communicator(std::make_unique<Broken>(released), kGpu);
  const Tensor x = Tensor::zeros({100}, DType::f32, kGpu);
  comm->wait(comm->all_reduce(x), kGpu);
  compute_stream(kGpu).synchronize();
  EXPECT_ERROR(comm->all_reduce(x), "the network is gone");
  EXPECT_ERROR(comm->barrier(), "the network is gone");
}

TEST_F(StagedOnGpu, AnExceptionDoesNotWaitForTheHost) {
  const auto released = std::make_shared<std::latch>(1);
  const Tensor x = Tensor::zeros({100}, DType::f32, kGpu);  // outlives what is in flight
  try {
    const auto comm = make_staged_communicator(std::make_unique<Broken>(released), kGpu);
    comm->all_reduce(x);
    throw Error("this rank fails");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "this rank fails");
  }
  released->count_down();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

}  // namespace
}  // namespace brigade::dist
