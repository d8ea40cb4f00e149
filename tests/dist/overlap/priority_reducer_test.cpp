#include "dist/overlap/priority_reducer.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "core/ops.h"
#include "dist/comm/emulated_link_communicator.h"
#include "dist/hooks/half_hook.h"
#include "tests/support/fake_communicator.h"
#include "tests/support/small_model.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using testing::ElementsAre;

std::vector<autograd::Variable> parameters_of(const BucketPlan& plan) {
  std::vector<autograd::Variable> parameters;
  for (const std::vector<std::size_t>& members : plan) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      parameters.emplace_back(Tensor::zeros({256}), true,
                              fmt::format("{}.weight", parameters.size()));
    }
  }
  return parameters;
}

/// Layers over a slow link. On rank 0 they are ready at once and pile up; on rank 1 each comes long
/// after the one before has arrived, so that its own order would change nothing.
class Watched {
 public:
  Watched(Communicator& comm, BucketPlan plan)
      : plan_(std::move(plan)),
        comm_(comm.split(0, comm.rank()), {.alpha_us = 3000, .gigabytes_per_s = 1}) {}  // 6 ms each

  void backward() {
    for (const std::vector<std::size_t>& members : plan_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(comm_.rank() == 0 ? 0 : 20));
      for (const std::size_t member : members) {
        reducer.on_grad_ready(member);
      }
    }
    reducer.on_backward_end();
  }

  /// Its first bucket is launched, then it fails.
  void failing_backward() {
    reducer.on_grad_ready(plan_.front().front());
    reducer.on_backward_abort();
  }

  void expect_order_of_need_after(int backwards) {
    const std::vector<LaunchItem> before = reducer.order();
    for (int i = 0; i < backwards; ++i) {
      backward();
      EXPECT_EQ(reducer.order(), before) << "still observing, rank " << comm_.rank();
    }
    backward();
    EXPECT_THAT(reducer.order(), ElementsAre(LaunchItem{0, 0}, LaunchItem{2, 0}, LaunchItem{1, 0}))
        << "rank " << comm_.rank();
    EXPECT_TRUE(comm_.times().collectives.empty()) << "nobody had asked for records";
  }

 private:
  BucketPlan plan_;
  EmulatedLinkCommunicator comm_;
  std::vector<autograd::Variable> parameters_ = parameters_of(plan_);
  std::vector<Bucket> buckets_ = make_buckets(parameters_, plan_);
  PlainAllReduce hook_;
  WaitForBuckets completion_{comm_};

 public:
  PriorityReducer reducer{{parameters_, buckets_, comm_, hook_, completion_}, 1U << 20U};
};

class ThreeLayers : public Watched {
 public:
  explicit ThreeLayers(Communicator& comm) : Watched(comm, {{2}, {1}, {0}}) {}
};

TEST(PriorityReducer, OrdersOnceByWhatRankZeroObserved) {
  test::thread_world(2, [](Communicator& comm) {
    ThreeLayers watched(comm);
    watched.expect_order_of_need_after(3);
    watched.backward();
    EXPECT_THAT(watched.reducer.order(),
                ElementsAre(LaunchItem{0, 0}, LaunchItem{2, 0}, LaunchItem{1, 0}));
  });
}

TEST(PriorityReducer, ABucketIsNeededWhenTheFirstOfItsParametersIs) {
  for (const BucketPlan& plan :
       {BucketPlan{{4}, {2, 1}, {0, 3}}, BucketPlan{{4}, {1, 2}, {3, 0}}}) {
    test::thread_world(
        2, [&](Communicator& comm) { Watched(comm, plan).expect_order_of_need_after(3); });
  }
}

TEST(PriorityReducer, ABackwardThatFailsAloneBeforeItLaunchedLeavesTheRanksInStep) {
  test::thread_world(2, [](Communicator& comm) {
    ThreeLayers watched(comm);
    watched.backward();
    watched.backward();
    if (comm.rank() == 1) {
      watched.reducer.on_backward_abort();
    }
    watched.expect_order_of_need_after(1);
  });
}

TEST(PriorityReducer, ABackwardThatFailsIsNotObserved) {
  test::thread_world(2, [](Communicator& comm) {
    ThreeLayers watched(comm);
    watched.backward();
    watched.backward();
    watched.failing_backward();
    watched.expect_order_of_need_after(1);
  });
}

std::vector<std::string> labels(const std::vector<Chunk>& chunks) {
  std::vector<std::string> result;
  for (const Chunk& chunk : chunks) {
    result.push_back(chunk.label);
  }
  return result;
}

TEST(Split, MakesEqualChunksWithoutGaps) {
  const auto model = test::make_mlp({16, 16});  // 0.weight: 1024 bytes, the bias one slice
  const std::vector<Bucket> buckets = make_buckets(model->parameters(), {{1}, {0}});
  EXPECT_THAT(labels(split(buckets[0], 448)), ElementsAre("0.bias")) << "not larger";
  const std::vector<Chunk> chunks = split(buckets[1], 448);
  EXPECT_THAT(labels(chunks), ElementsAre("0.weight[1/3]", "0.weight[2/3]", "0.weight[3/3]"));
  std::vector<std::size_t> bytes;
  const std::byte* next = buckets[1].grads.bytes();
  for (const Chunk& chunk : chunks) {
    EXPECT_EQ(chunk.grads.bytes(), next) << "a gap or an overlap before " << chunk.label;
    next += chunk.grads.nbytes();
    bytes.push_back(chunk.grads.nbytes());
  }
  EXPECT_THAT(bytes, ElementsAre(320, 320, 384)) << "whole slices, about equal, at most 448 bytes";
}

TEST(Split, LeavesAnExactFitWholeAndStopsAtTheAlignment) {
  const auto model = test::make_mlp({16, 16});
  const Bucket bucket = make_buckets(model->parameters(), {{1}, {0}})[1];
  EXPECT_EQ(split(bucket, 1024).size(), 1U);
  EXPECT_EQ(split(bucket, 1023).size(), 2U);
  EXPECT_EQ(split(bucket, 512).size(), 2U);
  EXPECT_EQ(split(bucket, 100).size(), 16U) << "a chunk of 100 bytes is one of 64, aligned";
  EXPECT_EQ(split(bucket, 1).size(), 16U) << "no chunk is smaller than the alignment";
}

TEST(PriorityReducer, LaunchesChunkByChunkAndWaitsForTheWholeBucket) {
  const auto model = test::make_mlp({16, 16});
  const std::vector<autograd::Variable> parameters = model->parameters();
  const std::vector<Bucket> buckets = make_buckets(parameters, {{0}, {1}});
  test::FakeCommunicator comm(2);
  PlainAllReduce hook;
  WaitForBuckets completion(comm);
  PriorityReducer reducer({parameters, buckets, comm, hook, completion}, /*chunk_bytes=*/512);
  for (const Bucket& bucket : buckets) {
    Tensor grads = bucket.grads;
    ops::fill(1.0, grads);
  }
  reducer.on_grad_ready(1);
  EXPECT_EQ(comm.collectives(), 0U) << "bucket 1 is full, but bucket 0 comes before it";
  reducer.on_grad_ready(0);
  EXPECT_EQ(comm.collectives(), 3U);
  EXPECT_TRUE(comm.reduced.empty());
  reducer.on_backward_end();
  EXPECT_THAT(comm.reduced, ElementsAre(buckets[0].grads.bytes(), buckets[0].grads.bytes() + 512,
                                        buckets[1].grads.bytes()));
  EXPECT_THAT(buckets[0].grads.to_vector<float>(), testing::Each(2.0F)) << "all of it, once";
}

TEST(PriorityReducer, ABucketIsDoneWhenItsLastChunkIs) {
  test::thread_world(2, [](Communicator& plain) {
    EmulatedLinkCommunicator comm(
        plain.split(0, plain.rank()),
        {.alpha_us = 10'000, .gigabytes_per_s = 10});  // a collective takes 20 ms
    comm.times().on = true;
    const auto model = test::make_mlp({16, 16});
    const std::vector<autograd::Variable> parameters = model->parameters();
    const std::vector<Bucket> buckets = make_buckets(parameters, {{1, 0}});
    PlainAllReduce hook;
    WaitForBuckets completion(comm);
    PriorityReducer reducer({parameters, buckets, comm, hook, completion}, /*chunk_bytes=*/576);
    reducer.on_grad_ready(1);
    reducer.on_grad_ready(0);
    reducer.on_backward_end();
    const std::vector<CollectiveRecord> collectives = comm.times().collectives;
    ASSERT_EQ(collectives.size(), 2U);
    EXPECT_EQ(collectives[1].label, "bucket_0[2/2]");
    EXPECT_TRUE(collectives[1].end.done());
  });
}

TEST(PriorityReducer, SplitsNothingForAHookThatCompresses) {
  const auto model = test::make_mlp({16, 16});
  const std::vector<autograd::Variable> parameters = model->parameters();
  const std::vector<Bucket> buckets = make_buckets(parameters, {{1, 0}});
  test::FakeCommunicator comm(2);
  HalfHook hook(DType::bf16);
  WaitForBuckets completion(comm);
  const PriorityReducer reducer({parameters, buckets, comm, hook, completion}, 512);
  EXPECT_EQ(reducer.order().size(), 1U);
}

}  // namespace
}  // namespace brigade::dist
