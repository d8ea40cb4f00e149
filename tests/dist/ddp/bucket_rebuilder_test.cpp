#include "dist/ddp/bucket_rebuilder.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "core/runtime/context.h"
#include "dist/comm/single_process.h"
#include "dist/ddp/grad_averager.h"
#include "dist/hooks/power_sgd.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/support/fake_communicator.h"
#include "tests/support/small_model.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using test::thread_world;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// "2.weight 2.bias | 0.weight": the buckets that a DataParallel uses now.
std::string buckets_of(const GradAverager& parallel) {
  std::string text;
  for (const Bucket& bucket : parallel.buckets()) {
    text += text.empty() ? "" : " |";
    for (const std::size_t member : bucket.members) {
      text += (text.empty() ? "" : " ") + parallel.parameters()[member].name();
    }
  }
  return text;
}

/// A model whose parameters are registered last layer first, so that the guess is wrong.
std::vector<autograd::Variable> wrong_way_round(const nn::Module& model) {
  std::vector<autograd::Variable> parameters = model.parameters();
  std::reverse(parameters.begin(), parameters.end());
  return parameters;
}

TEST(BucketRebuilder, RebuildsOnceFromTheFirstBackward) {
  thread_world(2, [](Communicator& comm) {
    const auto model = test::make_mlp({2, 3, 2});
    const GradAverager parallel(wrong_way_round(*model), comm, {.bucket_bytes = 128});
    EXPECT_EQ(buckets_of(parallel), "0.bias 0.weight | 2.bias 2.weight");
    test::backward_once(*model, 2, 2);
    EXPECT_EQ(buckets_of(parallel), "2.weight 2.bias | 0.weight 0.bias");
    EXPECT_TRUE(parallel.rebuilt());
    const std::byte* place = parallel.buckets()[0].grads.bytes();
    test::backward_once(*model, 2, 2);
    EXPECT_EQ(parallel.buckets()[0].grads.bytes(), place) << "decided once";
  });
}

TEST(BucketRebuilder, WaitsForABackwardThatRankZeroHasSeen) {
  thread_world(2, [](Communicator& comm) {
    const auto model = test::make_mlp({2, 3, 2});
    GradAverager parallel(wrong_way_round(*model), comm, {.bucket_bytes = 128});
    if (comm.rank() == 0) {
      parallel.shadow_backward();  // it has no samples
    } else {
      test::backward_once(*model, 2, 2);
    }
    EXPECT_FALSE(parallel.rebuilt());
    test::backward_once(*model, 2, 2);
    EXPECT_TRUE(parallel.rebuilt());
    EXPECT_EQ(buckets_of(parallel), "2.weight 2.bias | 0.weight 0.bias");
  });
}

TEST(BucketRebuilder, RebuildingHoldsAFewLayersTwiceAndNotAll) {
  SingleProcessCommunicator comm(kCpu);
  constexpr std::int64_t kWidth = 128;
  constexpr std::size_t kLayerBytes = (kWidth + 1) * kWidth * sizeof(float);
  const auto model = test::make_mlp(std::vector<std::int64_t>(9, kWidth));
  // Layers 012 345 67 at first, then 765 432 10: every bucket takes from two old ones.
  const GradAverager parallel(wrong_way_round(*model), comm, {.bucket_bytes = 3 * kLayerBytes});
  const optim::SGD optimizer(model->parameters(), {.lr = 0.1});  // follows, and must let go
  CachingAllocator& allocator = *Context::current().allocator(kCpu);
  const std::size_t before = allocator.stats().in_use;  // 8 layers, weights and gradients
  allocator.reset_peak();
  test::backward_once(*model, kWidth, kWidth);
  EXPECT_TRUE(parallel.rebuilt());
  EXPECT_EQ(allocator.stats().in_use, before);
  // The new bucket's three layers, and two whose old bucket still has another's; all would be 16.
  EXPECT_LT(allocator.stats().peak_in_use, before + 6 * kLayerBytes);
}

TEST(BucketRebuilder, AHookLetsGoOfTheOldGradients) {
  SingleProcessCommunicator comm(kCpu);
  constexpr std::int64_t kWidth = 128;
  constexpr std::size_t kLayerBytes = (kWidth + 1) * kWidth * sizeof(float);
  const auto model = test::make_mlp(std::vector<std::int64_t>(9, kWidth));
  const GradAverager parallel(
      wrong_way_round(*model), comm,
      {.bucket_bytes = 3 * kLayerBytes, .hook = std::make_shared<PowerSgd>(1)});
  CachingAllocator& allocator = *Context::current().allocator(kCpu);
  const std::size_t before = allocator.stats().in_use;  // with the hook's errors, as large again
  allocator.reset_peak();
  test::backward_once(*model, kWidth, kWidth);
  EXPECT_TRUE(parallel.rebuilt());
  // The errors of 8 layers are gone while at most 5 exist twice.
  EXPECT_LT(allocator.stats().peak_in_use, before + 2 * kLayerBytes);
}

TEST(BucketRebuilder, AfterAFailedRebuildThereIsNoWayOn) {
  test::FakeCommunicator comm(2);
  const auto model = test::make_mlp({2, 3, 3, 2});
  // Layers 01 2 at first, then 21 0: a new bucket is needed.
  const GradAverager parallel(wrong_way_round(*model), comm, {.bucket_bytes = 256});
  comm.out_of_memory = true;
  EXPECT_THAT([&] { test::backward_once(*model, 2, 2); },
              ThrowsMessage<Error>(HasSubstr("out of memory")));
  comm.out_of_memory = false;
  EXPECT_THAT([&] { test::backward_once(*model, 2, 2); },
              ThrowsMessage<Error>(HasSubstr("into new buckets has failed")));
}

/// A model whose layers are in order, but each registers its bias before its weight.
std::vector<autograd::Variable> biases_first(const nn::Module& model) {
  std::vector<autograd::Variable> parameters = model.parameters();
  for (std::size_t i = 0; i + 1 < parameters.size(); i += 2) {
    std::swap(parameters[i], parameters[i + 1]);
  }
  return parameters;
}

TEST(BucketRebuilder, MovesNothingForTheOrderInsideABucket) {
  SingleProcessCommunicator comm(kCpu);
  const auto model = test::make_mlp({2, 3, 2});
  const GradAverager parallel(biases_first(*model), comm, {.bucket_bytes = 128});
  const std::byte* place = parallel.buckets()[0].grads.bytes();
  test::backward_once(*model, 2, 2);
  EXPECT_EQ(buckets_of(parallel), "2.bias 2.weight | 0.bias 0.weight")
      << "the weight is ready first, but both are in one bucket";
  EXPECT_FALSE(parallel.rebuilt());
  EXPECT_EQ(parallel.buckets()[0].grads.bytes(), place);
}

TEST(BucketRebuilder, PutsALayersWeightBeforeItsBiasWhereABucketEndsBetweenThem) {
  SingleProcessCommunicator comm(kCpu);
  const auto model = test::make_mlp({2, 3, 2});
  const GradAverager parallel(biases_first(*model), comm, {.mode = SyncMode::per_param});
  EXPECT_EQ(buckets_of(parallel), "2.bias | 2.weight | 0.bias | 0.weight");
  test::backward_once(*model, 2, 2);
  EXPECT_EQ(buckets_of(parallel), "2.weight | 2.bias | 0.weight | 0.bias");
}

TEST(BucketRebuilder, OfAStackOfLayersIsTheExpectedOne) {
  SingleProcessCommunicator comm(kCpu);
  for (const SyncMode mode : {SyncMode::per_param, SyncMode::overlap}) {
    for (const std::size_t cap : {std::size_t{64}, std::size_t{192}, std::size_t{1} << 20U}) {
      const auto model = test::make_mlp({2, 3, 3, 3, 2});
      const GradAverager parallel(model->parameters(), comm, {.mode = mode, .bucket_bytes = cap});
      const std::string before = buckets_of(parallel);
      test::backward_once(*model, 2, 2);
      EXPECT_EQ(buckets_of(parallel), before);
      EXPECT_FALSE(parallel.rebuilt());
    }
  }
}

TEST(BucketRebuilder, KeepsAPlanThatIsGiven) {
  SingleProcessCommunicator comm(kCpu);
  const auto other = test::make_mlp({2, 3, 2});
  const GradAverager given(other->parameters(), comm, {.plan = {{0, 1}, {2, 3}}});
  test::backward_once(*other, 2, 2);
  EXPECT_EQ(buckets_of(given), "0.weight 0.bias | 2.weight 2.bias");
}

TEST(BucketRebuilder, WatchesTheFirstBackwardThatSynchronises) {
  SingleProcessCommunicator comm(kCpu);
  const auto model = test::make_mlp({2, 3, 2});
  GradAverager parallel(wrong_way_round(*model), comm, {.bucket_bytes = 128});
  {
    const auto local = parallel.no_sync();
    test::backward_once(*model, 2, 2);
  }
  EXPECT_FALSE(parallel.rebuilt());
  test::backward_once(*model, 2, 2);
  EXPECT_TRUE(parallel.rebuilt());
}

TEST(BucketRebuilder, RankZeroDecidesForAll) {
  thread_world(3, [](Communicator& comm) {
    const auto model = test::make_mlp({2, 3, 2});
    const std::vector<autograd::Variable> parameters = model->parameters();
    const std::vector<Bucket> current = make_buckets(parameters, plan_buckets(parameters, 0));
    BucketRebuilder order(true);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto shift = static_cast<std::size_t>(comm.rank());
      order.note((i + shift) % parameters.size());  // every rank has seen another order
    }
    EXPECT_TRUE(order.due());
    EXPECT_EQ(order.decide(parameters, 0, current, comm), (BucketPlan{{0}, {1}, {2}, {3}}));
    EXPECT_FALSE(order.due());
  });
}

TEST(BucketRebuilder, PutsWhatNeverCameLast) {
  SingleProcessCommunicator comm(kCpu);
  const auto model = test::make_mlp({2, 3, 2});
  const std::vector<autograd::Variable> parameters = model->parameters();
  BucketRebuilder order(true);
  order.note(0);
  order.note(2);
  EXPECT_EQ(order.decide(parameters, 0, {}, comm), (BucketPlan{{0}, {2}, {3}, {1}}));
}

TEST(BucketRebuilder, ForgetsABackwardThatFailed) {
  SingleProcessCommunicator comm(kCpu);
  const auto model = test::make_mlp({2, 3, 2});
  const std::vector<autograd::Variable> parameters = model->parameters();
  BucketRebuilder order(true);
  order.note(1);
  order.forget();
  for (const std::size_t i : {3U, 2U, 1U, 0U}) {
    order.note(i);
  }
  EXPECT_EQ(order.decide(parameters, 0, {}, comm), (BucketPlan{{3}, {2}, {1}, {0}}));
}

/// Trains with an optimizer that has made steps before DataParallel moves the parameters, which the
/// rebuild then moves again.
template <class OptimizerT>
std::vector<float> train(Communicator& comm, typename OptimizerT::Options settings,
                         const DataParallelOptions& options) {
  const auto model = test::make_mlp({6, 16, 8, 3});
  const std::vector<autograd::Variable> parameters = wrong_way_round(*model);
  OptimizerT optimizer(parameters, settings);
  const auto step = [&](int number) {
    optimizer.zero_grad();
    const Tensor x = test::data_rows(4 * number, 4, 6, 3);
    autograd::mse_loss(model->forward(autograd::Variable(x)), test::data_rows(4 * number, 4, 3, 4))
        .backward();
    optimizer.step();
  };
  for (int i = 0; i < 3; ++i) {
    step(i);
  }
  const GradAverager parallel(parameters, comm, options);
  for (int i = 3; i < 7; ++i) {
    step(comm.size() * i + comm.rank());
  }
  EXPECT_EQ(parallel.rebuilt(), options.plan.empty());
  parallel.verify_parameters_equal();
  return autograd::values_of(parameters);
}

TEST(Rebuild, InTheMiddleOfTrainingChangesNoBit) {
  for (const SyncMode mode :
       {SyncMode::naive, SyncMode::flat, SyncMode::per_param, SyncMode::overlap}) {
    thread_world(3, [mode](Communicator& comm) {
      const DataParallelOptions with{.mode = mode, .bucket_bytes = 256};
      const auto model = test::make_mlp({6, 16, 8, 3});
      DataParallelOptions without = with;
      without.plan = plan_buckets(wrong_way_round(*model), with.capacity());
      const optim::SGD::Options momentum{.lr = 0.1, .momentum = 0.9};
      EXPECT_EQ(train<optim::SGD>(comm, momentum, with), train<optim::SGD>(comm, momentum, without))
          << to_string(mode);
      EXPECT_EQ(train<optim::Adam>(comm, {.lr = 0.01}, with),
                train<optim::Adam>(comm, {.lr = 0.01}, without))
          << to_string(mode);
    });
  }
}

}  // namespace
}  // namespace brigade::dist
