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
using testing::HasSubstr;
using testing::ThrowsMessage;

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
  std::vector<LaunchItem> order = in_bucket_order(std::vector<std::size_t>{1, 1, 1});
  Reducer reducer{{parameters, buckets, comm, hook, completion, order}};

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

TEST_F(ReducerTest, NamesTheParametersThatNeverCame) {
  for (const std::size_t index : {5U, 4U, 3U, 1U, 0U}) {
    reducer.on_grad_ready(index);
  }
  EXPECT_THAT([&] { reducer.on_backward_end(); },
              ThrowsMessage<Error>(HasSubstr(
                  "1 of 6 parameters got no gradient in this backward on rank 0: '2.weight'")));
}

TEST_F(ReducerTest, RefusesASecondReportInOneBackward) {
  reducer.on_grad_ready(5);
  EXPECT_THAT([&] { reducer.on_grad_ready(5); },
              ThrowsMessage<Error>(
                  HasSubstr("the gradient of '4.bias' was reported twice in one backward")));
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
  reducer.reset();
  reducer.on_grad_ready(5);
  EXPECT_EQ(launched(), 0U);
  reducer.on_grad_ready(4);
  EXPECT_EQ(launched(), 1U);
}

TEST(SplitBuckets, LeavePieceByPieceAndAreWaitedForAsAWhole) {
  const auto model = test::make_mlp({16, 16});
  const std::vector<autograd::Variable> parameters = model->parameters();
  const std::vector<Bucket> buckets = make_buckets(parameters, {{0}, {1}}, /*piece_bytes=*/512);
  ASSERT_EQ(buckets[0].pieces.size(), 2U);
  FakeCommunicator comm(2);
  PlainAllReduce hook;
  WaitForBuckets completion(comm);
  const std::vector<LaunchItem> order = in_bucket_order(std::vector<std::size_t>{2, 1});
  Reducer reducer({parameters, buckets, comm, hook, completion, order});
  for (const Bucket& bucket : buckets) {
    Tensor grads = bucket.grads;
    ops::fill(1.0, grads);
  }
  reducer.on_grad_ready(1);
  EXPECT_EQ(comm.collectives(), 0U);
  reducer.on_grad_ready(0);
  EXPECT_EQ(comm.collectives(), 3U);
  EXPECT_TRUE(comm.reduced.empty());
  reducer.on_backward_end();
  EXPECT_THAT(comm.reduced,
              ElementsAre(buckets[0].pieces[0].grads.bytes(), buckets[0].pieces[1].grads.bytes(),
                          buckets[1].grads.bytes()));
  EXPECT_THAT(buckets[0].grads.to_vector<float>(), testing::Each(2.0F)) << "all of it, once";
}

TEST(SplitBuckets, HavePiecesAsLargeAsDataParallelIsTold) {
  SingleProcessCommunicator comm(kCpu);
  const auto model = test::make_mlp({16, 16});  // 1024 bytes of weight
  const auto pieces = [&](const DataParallelOptions& options) {
    return GradAverager(model->parameters(), comm, options).buckets().back().pieces.size();
  };
  const BucketPlan plan{{1}, {0}};
  EXPECT_EQ(pieces({.bucket_bytes = 512, .plan = plan}), 1U);
  EXPECT_EQ(pieces({.bucket_bytes = 512, .plan = plan, .split_tensors = true}), 2U);
  EXPECT_EQ(pieces({.bucket_bytes = 512, .plan = plan, .split_tensors = true, .piece_bytes = 256}),
            4U);
}

TEST(SplitBuckets, LeaveInTheGivenOrderAndNotBeforeTheirBucketIsFull) {
  const auto model = test::make_mlp({16, 16});
  const std::vector<autograd::Variable> parameters = model->parameters();
  const std::vector<Bucket> buckets = make_buckets(parameters, {{0}, {1}}, /*piece_bytes=*/512);
  FakeCommunicator comm(2);
  PlainAllReduce hook;
  WaitForBuckets completion(comm);
  const std::vector<LaunchItem> order{{0, 1}, {1, 0}, {0, 0}};
  Reducer reducer({parameters, buckets, comm, hook, completion, order});
  reducer.on_grad_ready(1);
  EXPECT_EQ(comm.collectives(), 0U) << "bucket 1 is full, but a piece of bucket 0 comes before it";
  reducer.on_grad_ready(0);
  reducer.on_backward_end();
  EXPECT_THAT(comm.reduced,
              ElementsAre(buckets[0].pieces[1].grads.bytes(), buckets[1].grads.bytes(),
                          buckets[0].pieces[0].grads.bytes()));
}

TEST(SplitBuckets, LeaveInTheGivenOrderAfterAFlatBackwardToo) {
  const auto model = test::make_mlp({16, 16});
  const std::vector<autograd::Variable> parameters = model->parameters();
  const std::vector<Bucket> buckets = make_buckets(parameters, {{0}, {1}}, /*piece_bytes=*/512);
  FakeCommunicator comm(2);
  PlainAllReduce hook;
  WaitForBuckets completion(comm);
  const std::vector<LaunchItem> order{{0, 1}, {1, 0}, {0, 0}};
  FlatSync flat({parameters, buckets, comm, hook, completion, order});
  flat.on_grad_ready(0);
  flat.on_grad_ready(1);
  EXPECT_EQ(comm.collectives(), 0U);
  flat.on_backward_end();
  EXPECT_THAT(comm.reduced,
              ElementsAre(buckets[0].pieces[1].grads.bytes(), buckets[1].grads.bytes(),
                          buckets[0].pieces[0].grads.bytes()));
}

TEST(SplitBuckets, AreDoneWhenTheirLastPieceIs) {
  test::thread_world(2, [](Communicator& plain) {
    EmulatedLinkCommunicator comm(
        plain.split(0, plain.rank()),
        {.alpha_us = 10'000, .gigabytes_per_s = 10});  // a collective takes 20 ms
    comm.set_timing(true);
    const auto model = test::make_mlp({16, 16});
    const std::vector<autograd::Variable> parameters = model->parameters();
    const std::vector<Bucket> buckets = make_buckets(parameters, {{1, 0}}, /*piece_bytes=*/576);
    PlainAllReduce hook;
    WaitForBuckets completion(comm);
    const std::vector<LaunchItem> order{{0, 0}, {0, 1}};
    Reducer reducer({parameters, buckets, comm, hook, completion, order});
    reducer.on_grad_ready(1);
    reducer.on_grad_ready(0);
    reducer.on_backward_end();
    const std::vector<CollectiveRecord> collectives = comm.take_collectives();
    ASSERT_EQ(collectives.size(), 2U);
    EXPECT_EQ(collectives[1].label, "bucket_0[2/2]");
    EXPECT_TRUE(collectives[1].end.done());
  });
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
  EXPECT_FALSE(work.done().done());
  comm.wait(work, kCpu);
  EXPECT_TRUE(work.done().done());
}

TEST(Communicator, CountsCollectivesAndBytes) {
  FakeCommunicator comm(2);
  comm.all_reduce(Tensor::zeros({8}));
  comm.all_reduce(Tensor::zeros({2, 3}));
  EXPECT_EQ(comm.collectives(), 2U);
  EXPECT_EQ(comm.bytes_reduced(), 14U * 4U);
}

}  // namespace
}  // namespace brigade::dist
