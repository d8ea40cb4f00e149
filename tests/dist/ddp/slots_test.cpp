// Which parameters have a slot in a bucket: tied ones share one, frozen ones have none. And what
// else may lie there.
#include <gmock/gmock.h>

#include "autograd/functions/binary.h"
#include "core/ops.h"
#include "dist/comm/single_process.h"
#include "dist/ddp/grad_averager.h"
#include "optim/sgd.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_communicator.h"
#include "tests/support/slopes.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using test::backward_of;
using test::gradient_of;
using test::numbers;
using test::thread_world;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(TiedWeights, NamedTwiceHaveOneSlotOneCollectiveAndOneUpdate) {
  for (const SyncMode mode : test::kAllModes) {
    thread_world(2, [mode](Communicator& comm) {
      const auto p = numbers(2);
      const std::vector<autograd::Variable> twice{p[0], p[1], p[0]};
      const GradAverager parallel(twice, comm, {.mode = mode, .bucket_bytes = 0});
      EXPECT_EQ(parallel.parameters().size(), 2U);
      EXPECT_EQ(parallel.buckets().size(), 2U);
      optim::SGD optimizer(twice, {.lr = 1});
      backward_of({{p[0], comm.rank() + 1.0}, {p[1], 1}});
      EXPECT_EQ(comm.collectives(), 2U);
      optimizer.step();
      EXPECT_EQ(p[0].data().item(), -0.5);
    });
  }
}

TEST(TiedWeights, UsedTwiceInForwardReportOnceWithTheSumOfBothUses) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(1);
    const GradAverager parallel(p, comm, {.mode = SyncMode::per_param});
    backward_of({{p[0], comm.rank() + 1.0}, {p[0], 10}});
    EXPECT_EQ(comm.collectives(), 1U);
    EXPECT_EQ(gradient_of(p[0]), 11.5);
  });
}

TEST(FrozenParameters, HaveNoSlotAndStayAsTheyAre) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(3);
    p[1].set_requires_grad(false);
    GradAverager parallel(p, comm, {});
    optim::SGD optimizer(p, {.lr = 1});
    EXPECT_EQ(parallel.buckets()[0].members.size(), 2U);
    backward_of({{p[0], 1}, {p[1], 1}, {p[2], 1}});
    optimizer.step();
    EXPECT_EQ(p[1].data().item(), 1.0);
    EXPECT_EQ(p[2].data().item(), 0.0);
    parallel.verify_parameters_equal();
  });
}

TEST(FrozenParameters, AreComparedAndBroadcastLikeTheOthers) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(2);
    Tensor frozen = p[1].data();
    ops::fill(comm.rank() == 0 ? 1.0 : 3.0, frozen);
    p[1].set_requires_grad(false);
    EXPECT_THAT([&] { GradAverager(p, comm, {}); },
                ThrowsMessage<VerificationError>(
                    HasSubstr("parameter 'b' of rank 1 differs from rank 0's: largest difference "
                              "2")));
    const GradAverager parallel(p, comm, {.init_sync = InitSync::broadcast});
    EXPECT_EQ(p[1].data().item(), 1.0);
  });
}

TEST(FrozenParameters, MustBeTheSameOnAllRanks) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(2);
    p[comm.rank() == 0 ? 0 : 1].set_requires_grad(false);
    EXPECT_THAT(
        [&] { GradAverager(p, comm, {}); },
        ThrowsMessage<VerificationError>(HasSubstr("rank 0 has 'b f32 []', rank 1 has 'a")));
  });
}

TEST(FrozenParameters, FrozenAfterConstructionAreAnErrorOfTheNextBackward) {
  SingleProcessCommunicator comm(kCpu);
  const auto p = numbers(2);
  const GradAverager parallel(p, comm, {});
  p[1].set_requires_grad(false);
  EXPECT_ERROR(backward_of({{p[0], 1}, {p[1], 1}}),
               "data parallel: parameter 'b' was frozen after DataParallel was made; do it "
               "before, or make a new DataParallel");
}

TEST(FrozenParameters, ThawedAfterConstructionAreAnErrorOfTheNextBackward) {
  SingleProcessCommunicator comm(kCpu);
  const auto p = numbers(2);
  p[1].set_requires_grad(false);
  const GradAverager parallel(p, comm, {});
  p[1].set_requires_grad(true);
  EXPECT_ERROR(backward_of({{p[0], 1}, {p[1], 1}}),
               "data parallel: parameter 'b' was unfrozen after DataParallel was made; do "
               "it before, or make a new DataParallel");
}

TEST(GradAverager, RefusesWhatWasComputed) {
  SingleProcessCommunicator comm(kCpu);
  const autograd::Variable hidden = [] {
    const auto p = numbers(1);
    return autograd::mul(p[0], 2);
  }();
  hidden.set_name("hidden");
  EXPECT_ERROR(GradAverager({hidden}, comm, {}),
               "data parallel: 'hidden' is not a leaf but was computed; pass the parameters it "
               "comes from");
}

}  // namespace
}  // namespace brigade::dist
