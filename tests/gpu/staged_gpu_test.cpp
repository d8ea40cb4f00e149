// Ranks whose collectives go through the host, where these fail or never come.
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "core/error.h"
#include "core/runtime/context.h"
#include "dist/gpu/staged_communicator.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/expect_error.h"
#include "tests/support/idle_communicator.h"

namespace brigade::dist {
namespace {

using StagedOnGpu = GpuTest;

/// What a test and a rank that waits tell each other.
struct Wait {
  std::atomic<bool> over = false;
  std::atomic<bool> in_vain = false;  ///< it was not over after a while
};

/// One of two ranks. Its sums wait and fail; abandon() ends the waiting.
class Broken final : public test::IdleCommunicator {
 public:
  explicit Broken(std::shared_ptr<Wait> wait) : IdleCommunicator(0, 2), wait_(std::move(wait)) {}
  void abandon() noexcept override { wait_->over = true; }

 protected:
  void do_sum(const Tensor& /*tensor*/) override {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!wait_->over && !wait_->in_vain) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      wait_->in_vain = std::chrono::steady_clock::now() > deadline;
    }
    throw Error("the network is gone");
  }

 private:
  std::shared_ptr<Wait> wait_;
};

TEST_F(StagedOnGpu, TheNextCallTellsWhatFailedOnTheHost) {
  const auto wait = std::make_shared<Wait>();
  wait->over = true;
  const auto comm = make_staged_communicator(std::make_unique<Broken>(wait), kGpu);
  const Tensor x = Tensor::zeros({100}, DType::f32, kGpu);
  const Work sum = comm->all_reduce(x);
  EXPECT_EQ(sum.device(), kGpu) << "so that the stream waits, and not the host";
  comm->wait(sum);
  compute_stream(kGpu).synchronize();
  EXPECT_ERROR(comm->all_reduce(x), "the network is gone");
  EXPECT_ERROR(comm->barrier(), "the network is gone");
}

TEST_F(StagedOnGpu, AnExceptionDoesNotWaitForTheHost) {
  const auto wait = std::make_shared<Wait>();
  const Tensor x = Tensor::zeros({100}, DType::f32, kGpu);  // outlives what is in flight
  try {
    const auto comm = make_staged_communicator(std::make_unique<Broken>(wait), kGpu);
    comm->all_reduce(x);
    throw Error("this rank fails");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "this rank fails");
  }
  EXPECT_FALSE(wait->in_vain);
  wait->over = true;
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(StagedOnGpu, AbandonEndsWhatWaitsOnTheHost) {
  const auto wait = std::make_shared<Wait>();
  const auto comm = make_staged_communicator(std::make_unique<Broken>(wait), kGpu);
  const Tensor x = Tensor::zeros({100}, DType::f32, kGpu);
  comm->all_reduce(x);
  comm->abandon();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_FALSE(wait->in_vain);
}

}  // namespace
}  // namespace brigade::dist
