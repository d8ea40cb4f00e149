#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "core/ops.h"
#include "core/runtime/context.h"
#include "dist/comm/emulated_link_communicator.h"
#include "dist/comm/gather.h"
#include "dist/hooks/half_hook.h"
#include "dist/hooks/power_sgd.h"
#include "dist/hooks/top_k.h"
#include "optim/sgd.h"
#include "tests/support/expect_error.h"
#include "tests/support/small_model.h"
#include "tests/support/small_training.h"
#include "tests/support/thread_world.h"

/// What holds for every communication hook. What each does by itself: half_hook_test.cpp,
/// power_sgd_test.cpp, top_k_test.cpp.
namespace brigade::dist {
namespace {

using test::thread_world;
using test::train;
using testing::HasSubstr;
using testing::ThrowsMessage;

using MakeHook = std::shared_ptr<CommHook> (*)();

struct HookCase {
  const char* name;
  MakeHook make;
  /// Loss after training, as a multiple of what uncompressed gradients reach.
  double tolerance;
  /// How far from the weights of uncompressed gradients a short training may end, |a - b| / |b|:
  /// at least three times what was seen (7e-9, 2e-5, 1.5e-4, 0.002, 0.0045).
  double distance;
};

const std::vector<HookCase> kHooks{
    {"none", [] { return std::shared_ptr<CommHook>(std::make_shared<PlainAllReduce>()); }, 1.0001,
     1e-6},
    {"fp16", [] { return std::shared_ptr<CommHook>(std::make_shared<HalfHook>(DType::f16)); },
     1.001, 1e-4},
    {"bf16", [] { return std::shared_ptr<CommHook>(std::make_shared<HalfHook>(DType::bf16)); },
     1.01, 1e-3},
    {"powersgd", [] { return std::shared_ptr<CommHook>(std::make_shared<PowerSgd>(2)); }, 1.1,
     0.006},
    {"topk", [] { return std::shared_ptr<CommHook>(std::make_shared<TopK>(0.1)); }, 1.1, 0.015}};

class CommHooks : public testing::TestWithParam<std::tuple<int, HookCase>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  const HookCase& hook() const { return std::get<1>(GetParam()); }
};

TEST_P(CommHooks, FlatAndOverlapGiveTheSameBitsOnAllRanks) {
  thread_world(ranks(), [&](Communicator& comm) {
    // train() itself checks that all ranks end with the same bits.
    const std::vector<float> flat = train(comm, {.mode = SyncMode::flat, .hook = hook().make()});
    EXPECT_EQ(train(comm, {.mode = SyncMode::overlap, .hook = hook().make()}), flat);
    EXPECT_NE(train(comm, {.mode = SyncMode::overlap, .steps = 5, .hook = hook().make()}), flat);
  });
}

TEST_P(CommHooks, RunPerParameterAndWithMicroBatchesToo) {
  thread_world(ranks(), [&](Communicator& comm) {
    const std::vector<float> expected = train(comm, {});
    EXPECT_GT(test::relative_l2(train(comm, {.steps = 0}), expected), 2 * hook().distance);
    const auto close = [&](const std::vector<float>& weights) {
      EXPECT_LT(test::relative_l2(weights, expected), hook().distance);
    };
    close(train(comm, {.mode = SyncMode::per_param, .hook = hook().make()}));
    close(train(comm, {.accum = 2, .no_sync = true, .hook = hook().make()}));
    close(train(comm, {.accum = 2, .no_sync = false, .hook = hook().make()}));
  });
}

TEST_P(CommHooks, MoveAlongWhenTheBucketsAreRebuilt) {
  const auto trained = [](Communicator& comm, std::shared_ptr<CommHook> hook) {
    const auto model = test::make_mlp({6, 16, 8, 3});
    std::vector<autograd::Variable> parameters = model->parameters();
    std::reverse(parameters.begin(), parameters.end());  // so that the first buckets are wrong
    const std::vector<float> untrained = autograd::values_of(parameters);
    GradAverager parallel(parameters, comm, {.bucket_bytes = 256, .hook = std::move(hook)});
    optim::SGD optimizer(parameters, {.lr = 0.1});
    for (int step = 0; step < 6; ++step) {
      optimizer.zero_grad();
      const Tensor x = test::data_rows(4 * (comm.size() * step + comm.rank()), 4, 6, 3);
      const Tensor y = test::data_rows(4 * (comm.size() * step + comm.rank()), 4, 3, 4);
      autograd::mse_loss(model->forward(autograd::Variable(x)), y).backward();
      optimizer.step();
    }
    EXPECT_TRUE(parallel.rebuilt());
    parallel.verify_parameters_equal();
    std::vector<float> result = autograd::values_of(parameters);
    EXPECT_GT(test::relative_l2(untrained, result), 0.03);
    return result;
  };
  thread_world(ranks(), [&](Communicator& comm) {
    const std::vector<float> expected = trained(comm, std::make_shared<PlainAllReduce>());
    EXPECT_LT(test::relative_l2(trained(comm, hook().make()), expected), hook().distance);
  });
}

/// What a rank trains on in a regression whose answer is known: targets come from a linear teacher,
/// and each rank sees inputs of other sizes, so that the ranks' gradients differ.
struct Lesson {
  static constexpr std::int64_t kIn = 12;
  static constexpr std::int64_t kOut = 6;
  static constexpr std::int64_t kRows = 32;

  explicit Lesson(int rank) : x(test::data_rows(rank * kRows, kRows, kIn, 5)) {
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      x.data<float>()[i] *= (i % kIn + rank) % 3 == 0 ? 1.5F : 0.5F;
    }
    Tensor teacher = test::data_rows(0, kOut, kIn, 6);
    ops::gemm(x, ops::Trans::no, teacher, ops::Trans::yes, {}, target);
  }

  Tensor x;
  Tensor target = Tensor::empty({kRows, kOut});
};

/// Mean loss over all ranks after `steps` steps.
double loss_after(Communicator& comm, int steps, std::shared_ptr<CommHook> hook) {
  const auto model = test::make_mlp({Lesson::kIn, 24, Lesson::kOut});
  GradAverager parallel(model->parameters(), comm,
                        {.mode = SyncMode::overlap, .bucket_bytes = 2048, .hook = std::move(hook)});
  optim::SGD optimizer(model->parameters(), {.lr = 0.1});
  const Lesson lesson(comm.rank());
  const auto forward = [&] {
    return autograd::mse_loss(model->forward(autograd::Variable(lesson.x)), lesson.target);
  };
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    forward().backward();
    optimizer.step();
  }
  parallel.verify_parameters_equal();
  double sum = 0.0;
  for (const double loss : all_gather_values(comm, forward().data().item())) {
    sum += loss;
  }
  return sum / comm.size();
}

constexpr int kLessonSteps = 300;

TEST_P(CommHooks, ConvergeAsUncompressedGradientsDo) {
  thread_world(ranks(), [&](Communicator& comm) {
    const double untrained = loss_after(comm, 0, std::make_shared<PlainAllReduce>());
    const double expected = loss_after(comm, kLessonSteps, std::make_shared<PlainAllReduce>());
    const double got = loss_after(comm, kLessonSteps, hook().make());
    EXPECT_LT(expected, 0.1 * untrained);
    EXPECT_LT(got, hook().tolerance * expected);
  });
}

INSTANTIATE_TEST_SUITE_P(RanksAndHooks, CommHooks,
                         testing::Combine(testing::Values(2, 3, 4), testing::ValuesIn(kHooks)),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<1>(test.param).name,
                                              std::get<0>(test.param));
                         });

TEST(CommHook, NothingIsAllocatedOnTheCommunicationThread) {
  const std::vector<MakeHook> without_sums{kHooks[1].make, kHooks[2].make, kHooks[4].make};
  for (const MakeHook make : without_sums) {  // sum() is the communicator's own affair
    thread_world(2, [&](Communicator& comm) {
      train(comm, {.hook = make()});
      const Work work = comm.enqueue(Tensor::zeros({1}), "look", [](Collectives& /*ranks*/) {
        EXPECT_EQ(Context::current().allocator(kCpu)->stats().system_allocations, 0U);
      });
      comm.wait(work);
    });
  }
}

TEST(CommHook, NaiveHasNoBucketsToCompress) {
  thread_world(2, [](Communicator& comm) {
    const auto model = test::make_mlp({2, 2});
    EXPECT_ERROR_OF(
        UsageError,
        GradAverager(model->parameters(), comm,
                     {.mode = SyncMode::naive, .hook = std::make_shared<TopK>(0.5)}),
        "naive: expected communication hook none, got topk:ratio=0.5: hooks compress buckets, and "
        "naive has none; use flat, per_param or overlap");
  });
}

TEST(CommHook, RanksWithDifferentHooksAreRefused) {
  thread_world(2, [](Communicator& comm) {
    const auto model = test::make_mlp({2, 2});
    const std::int64_t rank_of_hook = comm.rank() + 1;
    EXPECT_THAT(
        [&] {
          GradAverager(model->parameters(), comm,
                       {.hook = std::make_shared<PowerSgd>(rank_of_hook)});
        },
        ThrowsMessage<VerificationError>(HasSubstr("communication hook powersgd:rank=2")));
  });
}

TEST(CommHook, ServesOneDataParallelAtATimeIfItRemembersBuckets) {
  for (const HookCase& hook : kHooks) {
    thread_world(1, [&hook](Communicator& comm) {
      const auto model = test::make_mlp({4, 3});
      const auto another = test::make_mlp({4, 3});
      const DataParallelOptions options{.hook = hook.make()};
      {
        const GradAverager first(model->parameters(), comm, options);
        const auto second = [&] { GradAverager(another->parameters(), comm, options); };
        if (options.hook->may_be_shared()) {
          EXPECT_NO_THROW(second());
        } else {
          EXPECT_ERROR(second(),
                       "data parallel: the hook " + options.hook->name() +
                           " remembers another DataParallel's buckets; make one for each");
        }
      }
      EXPECT_NO_THROW(GradAverager(another->parameters(), comm, options)) << "the first is gone";
    });
  }
}

TEST(CommHook, AnEmulatedLinkCostsWhatIsSent) {
  thread_world(2, [](Communicator& plain) {
    EmulatedLinkCommunicator comm(
        plain.split(0, plain.rank()),
        {.alpha_us = 0.0, .gigabytes_per_s = 0.001});  // a byte takes a microsecond
    constexpr std::int64_t kNumbers = 1 << 20;
    const std::vector<autograd::Variable> parameters{
        autograd::Variable(Tensor::zeros({kNumbers}), true, "w")};
    const std::vector<Bucket> buckets = make_buckets(parameters, {{0}});
    TopK hook(16.0 / kNumbers);
    hook.prepare(parameters, buckets, comm);
    comm.times().on = true;
    comm.wait(hook.all_reduce(0, buckets[0].grads, buckets[0].label, comm));
    const std::vector<CollectiveRecord> records = comm.times().collectives;
    EXPECT_EQ(comm.bytes_sent(), 16U * 8U) << "the ranks' meeting before it is not counted";
    EXPECT_LT(elapsed_ms(records.at(0).begin, records.at(0).end), 2000.0)
        << "the whole bucket would take 4200 ms";
  });
}

}  // namespace
}  // namespace brigade::dist
