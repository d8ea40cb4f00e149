#include "dist/planning/bucket_tuner.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "dist/comm/emulated_link_communicator.h"
#include "dist/comm/single_process.h"
#include "dist/planning/link_times.h"
#include "optim/sgd.h"
#include "tests/support/all_reduces.h"
#include "tests/support/small_model.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

/// A busy machine makes a measurement longer, so that the shortest of a few counts.
TEST(MeasuredLink, IsTheEmulatedOne) {
  test::thread_world(2, [](Communicator& world) {
    const LinkModel model{.alpha_us = 10'000, .gigabytes_per_s = 0.1};
    EmulatedLinkCommunicator comm(world.split(0, world.rank()), model);
    for (const std::int64_t numel : {std::int64_t{1} << 12U, std::int64_t{1} << 18U}) {
      const Tensor memory = Tensor::empty({numel}, DType::f32, kCpu);
      const auto bytes = static_cast<double>(memory.nbytes());
      const double expected = model.ring_ms(2, bytes);
      double shortest = std::numeric_limits<double>::max();
      for (int i = 0; i < 10 && shortest > 1.2 * expected; ++i) {
        const LinkTimes link = measure_link(comm, memory);
        EXPECT_EQ(link.points().back().bytes, bytes);
        shortest = std::min(shortest, link.ms(bytes));
      }
      EXPECT_GT(shortest, 0.99 * expected);
      EXPECT_LT(shortest, 1.5 * expected);
    }
  });
}

TEST(MeasuredLink, LastSizesLieApart) {
  const auto sizes = [](std::int64_t numel) {
    std::vector<double> bytes;
    SingleProcessCommunicator comm(kCpu);
    const LinkTimes link = measure_link(comm, Tensor::empty({numel}, DType::f32, kCpu));
    for (const LinkPoint& point : link.points()) {
      bytes.push_back(point.bytes);
    }
    return bytes;
  };
  EXPECT_THAT(sizes(10), testing::ElementsAre(40));
  EXPECT_THAT(sizes(520), testing::ElementsAre(256, 2080)) << "and not 2048 between";
  EXPECT_THAT(sizes(8000), testing::ElementsAre(256, 2048, 32000));
  EXPECT_THAT(sizes(9000), testing::ElementsAre(256, 2048, 16384, 36000));
}

/// Trains over a link on which one all-reduce takes 4 ms, with a bucket for each parameter. Returns
/// rank 0's weights.
std::vector<float> train(bool tuned, bool rank0_has_samples = true) {
  std::vector<float> weights;
  test::thread_world(2, [&](Communicator& world) {
    EmulatedLinkCommunicator comm(world.split(0, world.rank()),
                                  {.alpha_us = 2'000, .gigabytes_per_s = 1});
    comm.use(test::make_all_reduce("ordered"));
    const auto model = test::make_mlp({6, 16, 16, 4});
    GradAverager averager(model->parameters(), comm, {.bucket_bytes = 0});
    optim::SGD sgd(model->parameters(), {.lr = 0.1, .momentum = 0.9});
    BucketTuner tuner(averager);
    for (int step = 1; step <= 8; ++step) {
      sgd.zero_grad();
      if (comm.rank() > 0 || rank0_has_samples || step == 7) {
        test::backward_once(*model, 6, 4);
      } else {
        averager.shadow_backward();
      }
      sgd.step();
      const auto choice = tuned ? tuner.after_step() : std::nullopt;
      EXPECT_EQ(choice.has_value(), tuned && step == (rank0_has_samples ? 5 : 7)) << step;
      if (choice) {
        EXPECT_TRUE(choice->changed);
        EXPECT_GT(choice->before_ms, 6 * 4.0);
        EXPECT_LT(choice->now_ms, choice->before_ms / 2) << "of six latencies one or two are left";
        EXPECT_LE(averager.buckets().size(), 2);
      }
    }
    averager.verify_parameters_equal();
    if (comm.rank() == 0) {
      weights = autograd::values_of(model->parameters());
    }
  });
  return weights;
}

TEST(BucketTuner, ChoosesOnceAndChangesNoBit) {
  EXPECT_EQ(train(/*tuned=*/true), train(/*tuned=*/false));
}

TEST(BucketTuner, WaitsForABackwardOfRank0) {
  train(/*tuned=*/true, /*rank0_has_samples=*/false);
}

TEST(BucketTuner, KeepsBucketsThatAreAsGood) {
  test::thread_world(2, [](Communicator& world) {
    EmulatedLinkCommunicator comm(world.split(0, world.rank()),
                                  {.alpha_us = 10'000, .gigabytes_per_s = 1});
    const auto model = test::make_mlp({6, 4});
    GradAverager averager(model->parameters(), comm, {});
    BucketTuner tuner(averager);
    for (int step = 1; step < 5; ++step) {
      test::backward_once(*model, 6, 4);
      EXPECT_FALSE(tuner.after_step());
    }
    test::backward_once(*model, 6, 4);
    const auto choice = tuner.after_step();
    ASSERT_TRUE(choice);
    EXPECT_FALSE(choice->changed);
    EXPECT_EQ(choice->now_ms, choice->before_ms);
  });
}

}  // namespace
}  // namespace brigade::dist
