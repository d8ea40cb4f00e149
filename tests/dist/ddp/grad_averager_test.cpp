#include "dist/ddp/grad_averager.h"

#include <gmock/gmock.h>

#include <mutex>

#include "autograd/functions/binary.h"
#include "autograd/functions/linear.h"
#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "core/ops.h"
#include "dist/comm/single_process.h"
#include "optim/sgd.h"
#include "tests/support/fake_communicator.h"
#include "tests/support/small_model.h"
#include "tests/support/small_training.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using test::thread_world;
using testing::HasSubstr;
using testing::ThrowsMessage;

using test::relative_l2;
using test::train;
using Run = test::TrainingRun;

std::vector<float> train_alone() {
  SingleProcessCommunicator one(kCpu);
  return train(one, {});
}

class ModesTest : public testing::TestWithParam<std::tuple<int, Run>> {};

TEST_P(ModesTest, TrainsAsOneRankOnTheGlobalBatch) {
  const auto [ranks, run] = GetParam();
  const std::vector<float> expected = train_alone();
  thread_world(ranks, [&, run = run](Communicator& comm) {
    EXPECT_LE(relative_l2(train(comm, run), expected), 1e-6);
  });
}

INSTANTIATE_TEST_SUITE_P(
    RanksAndModes, ModesTest,
    testing::Combine(testing::Values(2, 3, 4),
                     testing::Values(Run{.mode = SyncMode::naive}, Run{.mode = SyncMode::flat},
                                     Run{.mode = SyncMode::per_param},
                                     Run{.mode = SyncMode::overlap},
                                     Run{.mode = SyncMode::overlap, .accum = 2, .no_sync = true},
                                     Run{.mode = SyncMode::overlap, .accum = 2, .no_sync = false},
                                     Run{.mode = SyncMode::naive, .accum = 2, .no_sync = false})),
    [](const auto& test) {
      const int ranks = std::get<0>(test.param);
      const Run& run = std::get<1>(test.param);
      return fmt::format("{}_{}{}", ranks, to_string(run.mode),
                         run.accum > 1 ? (run.no_sync ? "_no_sync" : "_accum") : "");
    });

TEST(GradAverager, AllModesGiveTheSameBitsOnThreads) {
  thread_world(3, [](Communicator& comm) {
    const std::vector<float> expected = train(comm, {.mode = SyncMode::naive});
    for (const SyncMode mode : {SyncMode::flat, SyncMode::per_param, SyncMode::overlap}) {
      EXPECT_EQ(train(comm, {.mode = mode}), expected) << to_string(mode);
    }
  });
}

TEST(GradAverager, NoSyncUsesAQuarterOfTheCollectivesAtFourMicroBatches) {
  constexpr std::size_t kCap = 600;  // 3 buckets, before and after they are rebuilt
  thread_world(2, [](Communicator& comm) {
    std::uint64_t without = 0;
    std::uint64_t with = 0;
    const std::uint64_t before = comm.collectives();
    train(comm, {.accum = 4, .no_sync = false, .bucket_bytes = kCap});
    without = comm.collectives() / 6;
    EXPECT_EQ(before, 0U);
    const std::uint64_t so_far = comm.collectives();
    train(comm, {.accum = 4, .no_sync = true, .bucket_bytes = kCap});
    with = (comm.collectives() - so_far) / 6;
    EXPECT_EQ(without, 4 * with);
    EXPECT_GT(with, 1U);
  });
}

TEST(GradAverager, ScopesNestAndTheOuterOneCounts) {
  thread_world(2, [](Communicator& comm) {
    const auto model = test::make_mlp({2, 2});
    GradAverager parallel(model->parameters(), comm, {});
    const auto run = [&] { test::backward_once(*model, 2, 2); };
    {
      const auto outer = parallel.no_sync();
      { const auto inner = parallel.no_sync(); }
      run();
      EXPECT_EQ(comm.collectives(), 0U);
    }
    run();
    EXPECT_EQ(comm.collectives(), 1U);
  });
}

TEST(GradAverager, RefusesAnOptimizerStepOnGradientsThatNeverMet) {
  thread_world(2, [](Communicator& comm) {
    const auto model = test::make_mlp({2, 2});
    GradAverager parallel(model->parameters(), comm, {});
    optim::SGD optimizer(model->parameters(), {.lr = 0.1});
    const auto local = parallel.no_sync();
    test::backward_once(*model, 2, 2);
    EXPECT_THAT([&] { optimizer.step(); },
                ThrowsMessage<Error>(HasSubstr("never synchronised over the ranks")));
  });
}

TEST(GradAverager, NamesRankParameterAndDifferenceWhenInitialValuesDiffer) {
  thread_world(3, [](Communicator& comm) {
    const auto model = test::make_mlp({2, 2});
    if (comm.rank() == 2) {
      Tensor bias = model->parameters()[1].data();
      ops::fill(1.0, bias);
    } else {
      Tensor bias = model->parameters()[1].data();
      ops::fill(0.5, bias);
    }
    EXPECT_THAT([&] { GradAverager(model->parameters(), comm, {}); },
                ThrowsMessage<VerificationError>(HasSubstr(
                    "parameter '0.bias' of rank 2 differs from rank 0's: largest difference 0.5")));
  });
}

TEST(GradAverager, BroadcastMakesRankZeroWin) {
  thread_world(2, [](Communicator& comm) {
    const auto model = test::make_mlp({2, 2}, /*seed=*/static_cast<std::uint64_t>(comm.rank() + 1));
    const GradAverager parallel(model->parameters(), comm, {.init_sync = InitSync::broadcast});
    EXPECT_EQ(model->parameters()[0].data().to_vector<float>(),
              test::make_mlp({2, 2}, 1)->parameters()[0].data().to_vector<float>());
  });
}

TEST(GradAverager, RefusesRanksWithDifferentModes) {
  thread_world(2, [](Communicator& comm) {
    const auto model = test::make_mlp({2, 2});
    const SyncMode mode = comm.rank() == 0 ? SyncMode::naive : SyncMode::overlap;
    EXPECT_THAT([&] { GradAverager(model->parameters(), comm, {.mode = mode}); },
                ThrowsMessage<VerificationError>(HasSubstr("rank 0 has 'mode naive")));
  });
}

TEST(GradAverager, RefusesRanksWithDifferentBuckets) {
  thread_world(2, [](Communicator& comm) {
    const auto model = test::make_mlp({2, 2});
    const BucketPlan plan = comm.rank() == 0 ? BucketPlan{{1, 0}} : BucketPlan{{0, 1}};
    EXPECT_THAT([&] { GradAverager(model->parameters(), comm, {.plan = plan}); },
                ThrowsMessage<VerificationError>(
                    HasSubstr("rank 0 has 'bucket 0: 0.bias', rank 1 has 'bucket 0: 0.weight'")));
    const BucketPlan cut = comm.rank() == 0 ? BucketPlan{{1, 0}} : BucketPlan{{1}, {0}};
    EXPECT_THAT([&] { GradAverager(model->parameters(), comm, {.plan = cut}); },
                ThrowsMessage<VerificationError>(
                    HasSubstr("rank 0 has 'bucket 0: 0.weight', rank 1 has 'bucket 1: 0.weight'")));
  });
}

TEST(GradAverager, RefusesRanksWithDifferentPolicies) {
  const auto complaint = [](const DataParallelOptions& zero, const DataParallelOptions& one,
                            const std::string& text) {
    thread_world(2, [&](Communicator& comm) {
      const auto model = test::make_mlp({2, 2});
      EXPECT_THAT([&] { GradAverager(model->parameters(), comm, comm.rank() == 0 ? zero : one); },
                  ThrowsMessage<VerificationError>(HasSubstr(text)));
    });
  };
  complaint({.bucket_bytes = 64}, {},
            "buckets of 64 bytes, 2 parameters', rank 1 has 'mode overlap");
  complaint({}, {.init_sync = InitSync::broadcast},
            "rank 0 has 'initial weights: verify', rank 1 has 'initial weights: broadcast'");
  complaint({}, {.plan = {{0, 1}}}, "rank 1 has 'buckets never rebuilt'");
}

TEST(GradAverager, FollowsThePlanItIsGiven) {
  SingleProcessCommunicator comm(kCpu);
  const auto model = test::make_mlp({2, 3, 2});
  const GradAverager parallel(model->parameters(), comm, {.plan = {{3}, {1, 2}, {0}}});
  ASSERT_EQ(parallel.buckets().size(), 3U);
  EXPECT_EQ(parallel.buckets()[1].members, (std::vector<std::size_t>{1, 2}));
  test::backward_once(*model, 2, 2);
  EXPECT_EQ(comm.collectives(), 3U);
}

TEST(GradAverager, KeepsDtypesApart) {
  thread_world(2, [](Communicator& comm) {
    const std::vector<autograd::Variable> parameters{
        autograd::Variable(Tensor::zeros({3}, DType::f32), true, "a"),
        autograd::Variable(Tensor::zeros({3}, DType::f64), true, "b"),
        autograd::Variable(Tensor::zeros({3}, DType::f32), true, "c")};
    GradAverager parallel(parameters, comm, {});
    ASSERT_EQ(parallel.buckets().size(), 2U);
    EXPECT_EQ(parallel.buckets()[0].grads.dtype(), DType::f64);
    EXPECT_EQ(parallel.buckets()[1].members, (std::vector<std::size_t>{2, 0}));
    parallel.on_backward_begin();
    for (const std::size_t i : {2U, 1U, 0U}) {
      Tensor values = Tensor::empty_like(parameters[i].data());
      ops::fill(1.5, values);
      parameters[i].grad_state()->set_grad(values);
      parallel.on_grad_ready(i);
    }
    parallel.on_backward_end();
    EXPECT_THAT(parameters[0].grad().to_vector<float>(), testing::Each(3.0F));
    EXPECT_THAT(parameters[1].grad().to_vector<double>(), testing::Each(3.0));
  });
}

TEST(GradAverager, RefusesAPlanWithAParameterThatIsNotThere) {
  SingleProcessCommunicator comm(kCpu);
  const auto model = test::make_mlp({2, 2});
  EXPECT_THAT(
      [&] {
        GradAverager(model->parameters(), comm, {.plan = {{0, 1, 2}}});
      },
      ThrowsMessage<Error>(HasSubstr("bucket 0 has parameter number 2 of 2")));
}

TEST(GradAverager, RefusesRanksWithDifferentShapes) {
  thread_world(2, [](Communicator& comm) {
    const auto model = test::make_mlp({2, comm.rank() == 0 ? 2 : 3});
    EXPECT_THAT([&] { GradAverager(model->parameters(), comm, {}); },
                ThrowsMessage<VerificationError>(HasSubstr(
                    "rank 0 has '0.weight f32 [2, 2]', rank 1 has '0.weight f32 [3, 2]'")));
  });
}

TEST(GradAverager, RefusesAnOptimizerStepAfterABackwardThatFailed) {
  SingleProcessCommunicator comm(kCpu);
  const auto model = test::make_mlp({2, 2});
  std::vector<autograd::Variable> parameters = model->parameters();
  const autograd::Variable once(Tensor::zeros({}), true, "used_once");
  parameters.push_back(once);
  const GradAverager parallel(parameters, comm, {});
  optim::SGD optimizer(model->parameters(), {.lr = 0.1});
  const autograd::Variable x(Tensor::zeros({4, 2}));
  autograd::add(autograd::mse_loss(model->forward(x), Tensor::zeros({4, 2})), once).backward();
  optimizer.step();
  EXPECT_THROW(test::backward_once(*model, 2, 2), Error);  // later than all ranks compare
  EXPECT_THAT([&] { optimizer.step(); },
              ThrowsMessage<Error>(HasSubstr("never synchronised over the ranks")));
}

TEST(GradAverager, AveragesAWeightThatIsUsedTwice) {
  const auto gradient = [](int ranks, bool first_without_sync) {
    std::vector<float> result;
    std::mutex mutex;
    test::thread_world(ranks, [&](Communicator& comm) {
      const autograd::Variable w(Tensor::from(std::vector<float>{0.5F, -1, 2, 0.25F}, {2, 2}), true,
                                 "w");
      GradAverager parallel({w}, comm, {});
      const auto backward = [&] {
        const Tensor x = Tensor::from(std::vector<float>{1, 2, -3, 4}, {2, 2});
        const autograd::Variable hidden =
            autograd::linear(autograd::Variable(x), w, autograd::Variable());
        autograd::mse_loss(autograd::linear(hidden, w, autograd::Variable()), Tensor::zeros({2, 2}))
            .backward();
      };
      if (first_without_sync) {
        const auto scope = parallel.no_sync();
        backward();
      }
      backward();
      const std::lock_guard lock(mutex);
      result = w.grad().to_vector<float>();
    });
    return result;
  };
  // All ranks have the same samples, so the average is what one rank gets.
  for (const bool first_without_sync : {false, true}) {
    const std::vector<float> alone = gradient(1, first_without_sync);
    EXPECT_THAT(gradient(2, first_without_sync),
                testing::Pointwise(testing::FloatNear(1e-4F), alone));
    EXPECT_THAT(gradient(4, first_without_sync),
                testing::Pointwise(testing::FloatNear(1e-4F), alone));
  }
}

TEST(GradAverager, TakesTheMemoryOfGradientsFromTheCommunicator) {
  test::FakeCommunicator comm(2);
  const auto model = test::make_mlp({2, 3, 2});
  const GradAverager parallel(model->parameters(), comm, {.bucket_bytes = 64});
  ASSERT_GT(parallel.buckets().size(), 1U);
  ASSERT_EQ(comm.buffers.size(), parallel.buckets().size());
  for (std::size_t i = 0; i < comm.buffers.size(); ++i) {
    EXPECT_TRUE(parallel.buckets()[i].grads.same_storage(comm.buffers[i]))
        << "bucket " << i << " would be copied to where the ranks can reach it";
  }
}

TEST(GradAverager, RefusesToWrapAParameterTwice) {
  SingleProcessCommunicator comm(kCpu);
  const auto model = test::make_mlp({2, 2});
  const GradAverager first(model->parameters(), comm, {});
  EXPECT_THAT([&] { GradAverager(model->parameters(), comm, {}); },
              ThrowsMessage<Error>(HasSubstr("already wrapped")));
}

TEST(GradAverager, RefusesAModelThatHasNothingToTrain) {
  SingleProcessCommunicator comm(kCpu);
  EXPECT_THAT([&] { GradAverager({}, comm, {}); },
              ThrowsMessage<Error>(HasSubstr("none of 0 parameters requires a gradient; unfreeze "
                                             "some, or call register_module()")));
  const autograd::Variable frozen(Tensor::zeros({2}), false);
  EXPECT_THAT([&] { GradAverager({frozen}, comm, {}); },
              ThrowsMessage<Error>(HasSubstr("none of 1 parameters")));
}

TEST(GradAverager, LeavesTheModelAsItWas) {
  thread_world(2, [](Communicator& comm) {
    const auto model = test::make_mlp({2, 2});
    test::backward_once(*model, 2, 2);
    const std::vector<float> alone = model->parameters()[0].grad().to_vector<float>();
    { const GradAverager wrapped(model->parameters(), comm, {}); }
    model->parameters()[0].zero_grad();
    test::backward_once(*model, 2, 2);
    EXPECT_EQ(comm.collectives(), 0U);
    EXPECT_EQ(model->parameters()[0].grad().to_vector<float>(), alone)
        << "not divided by the ranks";
  });
}

}  // namespace
}  // namespace brigade::dist
