// Ranks whose collectives go through the host, where these fail or never come.
#include <latch>
#include <memory>

#include "core/context.h"
#include "core/error.h"
#include "dist/staged_communicator.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/expect_error.h"

namespace brigade::dist {
namespace {

using StagedOnGpu = GpuTest;

/// One of two ranks. Its sums wait for `released` and fail.
class Broken final : public Communicator {
 public:
  explicit Broken(std::shared_ptr<std::latch> released)
      : Communicator(0, 2), released_(std::move(released)) {}
  void barrier() override {}
  std::vector<std::byte> all_gather(std::span<const std::byte> mine) override {
    return {mine.begin(), mine.end()};
  }
  void broadcast(std::span<std::byte> /*bytes*/, int /*root*/) override {}

 protected:
  std::string transport() const override { return "broken"; }
  Stream& comm_stream() override { throw Error("a staged communicator has its own stream"); }
  void do_sum(const Tensor& /*tensor*/) override {
    released_->wait();
    throw Error("the network is gone");
  }
  void do_exchange(std::span<const Message> /*outgoing*/,
                   std::span<const Message> /*incoming*/) override {}

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
  try {
    const auto comm = make_staged_communicator(std::make_unique<Broken>(released), kGpu);
    comm->all_reduce(Tensor::zeros({100}, DType::f32, kGpu));
    throw Error("this rank fails");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "this rank fails");
  }
  released->count_down();
}

}  // namespace
}  // namespace brigade::dist
