#include "dist/ddp/unused_parameters.h"

#include <gmock/gmock.h>

#include <cmath>

#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "dist/comm/single_process.h"
#include "dist/ddp/grad_averager.h"
#include "optim/sgd.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_communicator.h"
#include "tests/support/on_backward.h"
#include "tests/support/slopes.h"
#include "tests/support/tensors.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using test::backward_of;
using test::gradient_of;
using test::numbers;
using test::thread_world;
using test::values;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::size_t kTwoPerBucket = 2 * kSliceAlignment;

DataParallelOptions finding(SyncMode mode) {
  return {.mode = mode, .bucket_bytes = kTwoPerBucket, .find_unused_parameters = true};
}

/// In every mode, on ranks that are threads.
class UnusedParametersTest : public testing::TestWithParam<SyncMode> {
 protected:
  static DataParallelOptions options() { return finding(GetParam()); }
};

TEST(UnusedParameters, AreNamedInALaterBackwardToo) {
  for (const SyncMode mode : {SyncMode::naive, SyncMode::flat, SyncMode::overlap}) {
    SingleProcessCommunicator comm(kCpu);
    const auto p = numbers(2);
    const GradAverager parallel(p, comm, {.mode = mode});
    backward_of({{p[0], 1}, {p[1], 1}});
    EXPECT_THAT([&] { backward_of({{p[0], 1}}); }, ThrowsMessage<Error>(HasSubstr("'b'")));
  }
}

TEST_P(UnusedParametersTest, OneThatSomeRankUsesHasTheAverageOnAll) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(3);
    const GradAverager parallel(p, comm, options());
    if (comm.rank() == 0) {
      backward_of({{p[0], 2}, {p[1], 8}, {p[2], 1}});
    } else {
      backward_of({{p[0], 6}});
    }
    EXPECT_EQ(gradient_of(p[0]), 4.0);
    EXPECT_EQ(gradient_of(p[1]), 4.0);
    EXPECT_EQ(gradient_of(p[2]), 0.5);
  });
}

TEST_P(UnusedParametersTest, OneThatNoRankUsesHasNoGradientAndTheStepLeavesItAlone) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(3);
    const GradAverager parallel(p, comm, options());
    optim::SGD optimizer(p, {.lr = 0.5, .momentum = 0.5, .weight_decay = 0.5});
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      backward_of({{p[0], 1}, {p[2], 1}});
      EXPECT_TRUE(std::isnan(gradient_of(p[1])));
      optimizer.step();
    }
    EXPECT_EQ(p[1].data().item(), 1.0);
    EXPECT_EQ(p[0].data().item(), -0.6875);  // v = 1.5, w = 0.25; v = 1.875
    EXPECT_EQ(p[2].data().item(), -0.6875);
  });
}

TEST_P(UnusedParametersTest, OneThatNoRankUsesKeepsAnEarlierGradientBitForBit) {
  // Three ranks: x · (1/3) summed three times is not x for every x.
  thread_world(3, [](Communicator& comm) {
    const auto p = numbers(20);
    const GradAverager parallel(p, comm, options());
    const auto first = [&] {
      std::vector<test::Use> uses;
      for (std::size_t i = 0; i < p.size(); ++i) {
        uses.push_back({p[i], 0.1 * static_cast<double>(i + 1)});
      }
      backward_of(uses);
    };
    first();
    std::vector<double> before;
    for (const autograd::Variable& parameter : p) {
      before.push_back(gradient_of(parameter));
    }
    backward_of({{p[0], 3.0}});
    for (std::size_t i = 1; i < p.size(); ++i) {
      EXPECT_EQ(gradient_of(p[i]), before[i]) << i;
    }
    EXPECT_NEAR(gradient_of(p[0]), before[0] + 3.0, 1e-6);
  });
}

TEST_P(UnusedParametersTest, AMicroBatchThatZeroGradHasThrownAwayDoesNot) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(3);
    GradAverager parallel(p, comm, options());
    optim::SGD optimizer(p, {.lr = 0.5});
    {
      const auto scope = parallel.no_sync();
      backward_of({{p[2], 8}});
    }
    optimizer.zero_grad();
    backward_of({{p[0], 2}});
    EXPECT_TRUE(std::isnan(gradient_of(p[2])));
    optimizer.step();
    EXPECT_EQ(p[0].data().item(), 0.0);
    EXPECT_EQ(p[2].data().item(), 1.0);
  });
}

TEST_P(UnusedParametersTest, AMicroBatchInsideNoSyncCountsAsUse) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(3);
    GradAverager parallel(p, comm, options());
    {
      const auto scope = parallel.no_sync();
      if (comm.rank() == 0) {
        backward_of({{p[2], 8}});
      } else {
        backward_of({{p[0], 4}});
      }
    }
    backward_of({{p[0], 2}});
    EXPECT_EQ(gradient_of(p[0]), 4.0);  // (2 + 6) / 2
    EXPECT_EQ(gradient_of(p[2]), 4.0);
    EXPECT_TRUE(std::isnan(gradient_of(p[1])));
  });
}

INSTANTIATE_TEST_SUITE_P(Modes, UnusedParametersTest, testing::ValuesIn(test::kAllModes),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST(UnusedParameters, MayChangeFromStepToStepWithFind) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(2);
    const GradAverager parallel(p, comm, finding(SyncMode::overlap));
    optim::SGD optimizer(p, {.lr = 1});
    for (std::size_t step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      backward_of({{p[step % 2], 2}});
      optimizer.step();
    }
    EXPECT_EQ(p[0].data().item(), -3.0);
    EXPECT_EQ(p[1].data().item(), -3.0);
  });
}

TEST(UnusedParameters, OneUsedInALaterBackwardOfTheStepIsUpdated) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(2);
    const GradAverager parallel(p, comm, finding(SyncMode::overlap));
    optim::SGD optimizer(p, {.lr = 1});
    backward_of({{p[0], 2}});
    backward_of({{p[1], 2}});
    EXPECT_EQ(gradient_of(p[0]), 2.0);
    optimizer.step();
    EXPECT_EQ(p[0].data().item(), -1.0);
    EXPECT_EQ(p[1].data().item(), -1.0);
  });
}

TEST(UnusedParameters, AnAverageThatOneRankAddsToStaysTheAverage) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(2);
    const GradAverager parallel(p, comm, finding(SyncMode::overlap));
    backward_of({{p[0], 1}, {p[1], comm.rank() == 0 ? 2.0 : 6.0}});
    if (comm.rank() == 0) {
      backward_of({{p[0], 1}, {p[1], 8}});
    } else {
      backward_of({{p[0], 1}});  // its 4 must count half, as on rank 0
    }
    EXPECT_EQ(gradient_of(p[1]), 8.0);
  });
}

TEST(UnusedParameters, HoldUpNoBucket) {
  test::FakeCommunicator comm(2);
  const auto p = numbers(3);
  DataParallelOptions options = finding(SyncMode::overlap);
  options.plan = {{2}, {1}, {0}};
  const GradAverager parallel(p, comm, options);
  std::uint64_t seen = 0;
  const auto note = [&](const Tensor&) { seen = comm.collectives(); };
  backward_of({{test::on_backward(p[0], note), 1}});
  EXPECT_EQ(seen, 3U) << "the bitmap and both unused buckets left before the first gradient";
}

TEST(UnusedParameters, CostOneCollective) {
  test::FakeCommunicator comm(2);
  const auto p = numbers(3);
  const GradAverager parallel(p, comm, finding(SyncMode::per_param));
  const std::uint64_t before = comm.collectives();
  backward_of({{p[0], 1}, {p[1], 1}, {p[2], 1}});
  EXPECT_EQ(comm.collectives() - before, 4U);
}

TEST(UnusedParameters, RefuseToGoOnWhenTheBitmapWasLeftInFlight) {
  test::FakeCommunicator comm(2);
  const auto p = numbers(1);
  const GradAverager parallel(p, comm, finding(SyncMode::naive));
  const autograd::Variable failing = test::on_backward(p[0], test::fail_in_backward);
  EXPECT_ERROR(backward_of({{failing, 1}}), "backward failed");
  EXPECT_THAT(
      [&] {
        backward_of({{p[0], 1}});
      },
      ThrowsMessage<Error>(HasSubstr("an earlier backward failed with an all-reduce in")));
}

TEST(UnusedParameters, AreTreatedAlikeOnAllRanks) {
  thread_world(2, [](Communicator& comm) {
    DataParallelOptions options = finding(SyncMode::overlap);
    options.find_unused_parameters = comm.rank() == 0;
    EXPECT_THAT([&] { GradAverager(numbers(1), comm, options); },
                ThrowsMessage<VerificationError>(
                    HasSubstr("rank 0 has 'find unused parameters: yes', rank 1 has 'find unused "
                              "parameters: no'")));
  });
}

}  // namespace
}  // namespace brigade::dist
