#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "core/ops.h"
#include "dist/comm/emulated_link_communicator.h"
#include "dist/ddp/grad_averager.h"
#include "tests/support/small_model.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using test::thread_world;
using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

TEST(LinkModel, CostsTwoPassesOfARing) {
  const LinkModel link{.alpha_us = 50.0, .gigabytes_per_s = 1.0};
  EXPECT_DOUBLE_EQ(link.ring_ms(2, 1'000'000), 0.1 + 1.0);
  EXPECT_DOUBLE_EQ(link.ring_ms(4, 1'500'000), 0.3 + 1.5);
  const LinkModel fast{.alpha_us = 10.0, .gigabytes_per_s = 10.0};
  EXPECT_DOUBLE_EQ(fast.ring_ms(3, 40'000'000), 0.04 + 4.0);
}

TEST(LinkModel, OneRankNeedsNoNetworkAndNoBytesCostLatencyOnly) {
  const LinkModel link{.alpha_us = 50.0, .gigabytes_per_s = 1.0};
  EXPECT_DOUBLE_EQ(link.ring_ms(1, 0), 0.0);
  EXPECT_DOUBLE_EQ(link.ring_ms(8, 0), 0.7);
}

TEST(EmulatedLink, DelaysTheCollectiveAndLeavesTheCallerFree) {
  thread_world(2, [](Communicator& plain) {
    EmulatedLinkCommunicator comm(plain.split(0, plain.rank()),
                                  {.alpha_us = 10'000.0, .gigabytes_per_s = 1.0});  // 20 ms
    Tensor values = Tensor::empty({100});
    ops::fill(1.0, values);
    const auto begin = Clock::now();
    const Work work = comm.all_reduce(values);
    EXPECT_FALSE(work.done_event().done()) << "all_reduce waited for the emulated link";
    comm.wait(work);
    EXPECT_GE(ms_since(begin), 20.0);
    EXPECT_THAT(values.to_vector<float>(), Each(2.0F));
  });
}

TEST(EmulatedLink, BeginsToCostWhenTheLastRankHasCome) {
  thread_world(2, [](Communicator& plain) {
    EmulatedLinkCommunicator comm(plain.split(0, plain.rank()),
                                  {.alpha_us = 10'000.0, .gigabytes_per_s = 1.0});  // 20 ms
    Tensor values = Tensor::zeros({100});
    const auto begin = Clock::now();
    comm.barrier();
    std::this_thread::sleep_for(std::chrono::milliseconds(comm.rank() == 1 ? 50 : 0));
    comm.wait(comm.all_reduce(values));
    EXPECT_GE(ms_since(begin), 70.0) << "rank " << comm.rank();
  });
}

TEST(EmulatedLink, IsPartOfTheDescription) {
  thread_world(2, [](Communicator& plain) {
    EXPECT_EQ(plain.description(), "threads");
    const EmulatedLinkCommunicator comm(plain.split(0, plain.rank()),
                                        {.alpha_us = 50.0, .gigabytes_per_s = 1.5});
    EXPECT_EQ(comm.description(), "threads, emulated link 50 us, 1.5 GB/s");
  });
}

/// One backward of a model with six parameters over a link that is all latency: 10 ms a collective.
double backward_ms(Communicator& comm, SyncMode mode) {
  const auto model = test::make_mlp({2, 3, 4, 2});
  GradAverager parallel(model->parameters(), comm, {.mode = mode});
  comm.barrier();
  const auto begin = Clock::now();
  test::backward_once(*model, 2, 2);
  return ms_since(begin);
}

TEST(EmulatedLink, EveryCollectivePaysTheLatency) {
  thread_world(2, [](Communicator& plain) {
    EmulatedLinkCommunicator comm(plain.split(0, plain.rank()),
                                  {.alpha_us = 5'000.0, .gigabytes_per_s = 1000.0});
    EXPECT_GE(backward_ms(comm, SyncMode::naive), 60.0);
    EXPECT_GE(backward_ms(comm, SyncMode::per_param), 60.0);
    const double bucketed = backward_ms(comm, SyncMode::overlap);
    EXPECT_GE(bucketed, 10.0);
    EXPECT_LT(bucketed, 60.0) << "one bucket, one latency";
  });
}

/// Stands for a communicator on a GPU.
class GpuCommunicator final : public Communicator {
 public:
  GpuCommunicator() : Communicator(0, 2) {}
  void barrier() override {}
  std::vector<std::byte> all_gather_bytes(std::span<const std::byte> /*mine*/) override {
    return {};
  }
  void broadcast(std::span<std::byte> /*bytes*/, int /*root*/) override {}

 protected:
  std::string transport() const override { return "gpu"; }
  Stream& comm_stream() override { return stream_; }
  void do_sum(const Tensor& /*tensor*/) override {}
  void do_exchange(std::span<const Message> /*outgoing*/, std::span<const Message> /*incoming*/,
                   const OnArrival& /*arrived*/) override {}

 private:
  class GpuStream final : public Stream {
   public:
    GpuStream() : Stream({DeviceType::cuda, 1}) {}
    void run(std::function<void()> work) override { work(); }
    Event record(Timing /*timing*/) override { return Event(); }
    void wait(const Event& /*event*/) override {}
  };
  GpuStream stream_;
};

TEST(EmulatedLink, IsRefusedOnAGpu) {
  EXPECT_THAT([] { EmulatedLinkCommunicator(std::make_unique<GpuCommunicator>(), LinkModel()); },
              ThrowsMessage<UsageError>(HasSubstr("emulated links are for CPU ranks")));
}

}  // namespace
}  // namespace brigade::dist
