#include "dist/ddp/reducer.h"

#include <gmock/gmock.h>

#include "core/ops.h"
#include "dist/comm/emulated_link_communicator.h"
#include "dist/comm/single_process.h"
#include "dist/ddp/flat_sync.h"
#include "dist/ddp/grad_averager.h"
#include "tests/support/fake_communicator.h"
#include "tests/support/small_model.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using test::FakeCommunicator;
using testing::ElementsAre;

/// Six parameters ("0.weight" ... "4.bias") in three buckets, as backward would fill them: {5,4}
/// {3,2} {1,0}.
class ReducerTest : public testing::Test {
 protected:
  ReducerTest() {
    for (const autograd::Variable& parameter : parameters) {
      parameter.grad_state()->fill_with_zeros();
    }
  }

  std::unique_ptr<nn::Sequential> model = test::make_mlp({2, 3, 4, 2});
  std::vector<autograd::Variable> parameters = model->parameters();
  std::vector<Bucket> buckets = make_buckets(parameters, {{5, 4}, {3, 2}, {1, 0}});
  FakeCommunicator comm{4};
  PlainAllReduce hook;
  WaitForBuckets completion{comm};
  Reducer reducer{{parameters, buckets, comm, hook, completion}};

  std::size_t launched() const { return comm.collectives(); }
};

TEST_F(ReducerTest, LaunchesABucketWhenItsLastGradientIsReady) {
  reducer.on_grad_ready(5);
  EXPECT_EQ(launched(), 0U);
  reducer.on_grad_ready(4);
  EXPECT_EQ(launched(), 1U);
}

TEST_F(ReducerTest, LaunchesInBucketOrderNotInOrderOfArrival) {
  for (const std::size_t early : {0U, 1U, 2U, 3U}) {
    reducer.on_grad_ready(early);
  }
  EXPECT_EQ(launched(), 0U) << "buckets 1 and 2 are full but bucket 0 has not left";
  reducer.on_grad_ready(4);
  reducer.on_grad_ready(5);
  comm.stream().flush();
  EXPECT_THAT(comm.reduced, ElementsAre(buckets[0].grads.bytes(), buckets[1].grads.bytes(),
                                        buckets[2].grads.bytes()));
}

TEST_F(ReducerTest, KeepsSeveralBucketsInFlight) {
  for (const std::size_t index : {5U, 4U, 3U, 2U}) {
    reducer.on_grad_ready(index);
  }
  EXPECT_EQ(launched(), 2U);
  EXPECT_TRUE(comm.reduced.empty()) << "nobody waited for a collective during backward";
}

TEST_F(ReducerTest, WaitsForEveryBucketAtTheEndOfBackward) {
  for (std::size_t index = 6; index-- > 0;) {
    reducer.on_grad_ready(index);
  }
  EXPECT_EQ(comm.reduced.size(), 0U);
  reducer.on_backward_end();
  EXPECT_EQ(comm.reduced.size(), 3U);
}

TEST_F(ReducerTest, ReducesEveryGradientExactlyOnce) {
  for (const Bucket& bucket : buckets) {
    Tensor grads = bucket.grads;
    ops::fill(1.0, grads);
  }
  for (std::size_t index = 6; index-- > 0;) {
    reducer.on_grad_ready(index);
  }
  reducer.on_backward_end();
  for (const autograd::Variable& parameter : parameters) {
    EXPECT_THAT(parameter.grad().to_vector<float>(), testing::Each(4.0F)) << parameter.name();
  }
}

TEST_F(ReducerTest, StartsAfreshInTheNextBackward) {
  for (int step = 1; step <= 3; ++step) {
    for (std::size_t index = 6; index-- > 0;) {
      reducer.on_grad_ready(index);
    }
    reducer.on_backward_end();
    EXPECT_EQ(launched(), static_cast<std::size_t>(3 * step));
  }
}

TEST_F(ReducerTest, ForgetsAnAbandonedBackward) {
  reducer.on_grad_ready(5);
  reducer.on_backward_abort();
  reducer.on_grad_ready(5);
  EXPECT_EQ(launched(), 0U);
  reducer.on_grad_ready(4);
  EXPECT_EQ(launched(), 1U);
}

TEST_F(ReducerTest, FlatLaunchesAllBucketsWhenBackwardHasEnded) {
  FlatSync flat({parameters, buckets, comm, hook, completion});
  for (std::size_t index = 6; index-- > 0;) {
    flat.on_grad_ready(index);
  }
  EXPECT_EQ(launched(), 0U);
  flat.on_backward_end();
  EXPECT_THAT(comm.reduced, ElementsAre(buckets[0].grads.bytes(), buckets[1].grads.bytes(),
                                        buckets[2].grads.bytes()));
}

TEST(Communicator, WaitsForTheGradientBeforeItReducesIt) {
  FakeCommunicator comm(2);
  comm.all_reduce(Tensor::zeros({8}));
  EXPECT_THAT(comm.log, ElementsAre("wait", "run", "record"))
      << "the communication stream must wait for the compute stream's event before the sum";
}

TEST(Communicator, ReturnsBeforeTheSumIsDone) {
  FakeCommunicator comm(2);
  const Work work = comm.all_reduce(Tensor::zeros({8}));
  EXPECT_FALSE(work.done_event().done());
  comm.wait(work);
  EXPECT_TRUE(work.done_event().done());
}

TEST(Communicator, CountsCollectivesAndBytes) {
  FakeCommunicator comm(2);
  comm.all_reduce(Tensor::zeros({8}));
  comm.all_reduce(Tensor::zeros({2, 3}));
  EXPECT_EQ(comm.collectives(), 2U);
  EXPECT_EQ(comm.traffic().bytes_reduced, 14U * 4U);
}

}  // namespace
}  // namespace brigade::dist
