#include "apps/training/inject.h"

#include <gmock/gmock.h>

#include <cmath>

#include "apps/training/model.h"
#include "autograd/grad_mode.h"
#include "tests/support/expect_error.h"
#include "tests/support/thread_world.h"

namespace brigade::apps {
namespace {

Fault parsed(const std::string& text) {
  return parse_fault("--inject", text);
}

TEST(Inject, EveryKindHasDefaults) {
  EXPECT_EQ(parsed("slow").kind, FaultKind::slow);
  EXPECT_EQ(parsed("slow").rank, 1);
  EXPECT_DOUBLE_EQ(parsed("slow").ms, 20.0);
  EXPECT_EQ(parsed("nan").step, 3);
  EXPECT_EQ(parsed("skip_param").name, "");
  EXPECT_EQ(parsed("swap_buckets").kind, FaultKind::swap_buckets);
  EXPECT_EQ(parsed("other_seed").kind, FaultKind::other_seed);
}

TEST(Inject, KeysComeInAnyOrder) {
  const Fault slow = parsed("slow:ms=2.5,rank=3");
  EXPECT_EQ(slow.rank, 3);
  EXPECT_DOUBLE_EQ(slow.ms, 2.5);
  EXPECT_EQ(slow.text, "slow:ms=2.5,rank=3");
  EXPECT_EQ(parsed("skip_param:name=2.bias").name, "2.bias");
  EXPECT_EQ(parsed("kill:step=7").step, 7);
}

TEST(Inject, MistakesNameWhatWasExpected) {
  EXPECT_ERROR_OF(UsageError, parsed("slwo"),
                  "--inject: expected one of bit_flip, kill, nan, other_seed, skip_param, "
                  "slow, spin, stop, swap_buckets, wire_flip, got \"slwo\"; did you mean slow?");
  EXPECT_ERROR_OF(UsageError, parsed("slow:rnak=1"),
                  "--inject slow: expected one of rank, ms, got \"rnak\"; did you mean rank?");
  EXPECT_ERROR_OF(UsageError, parsed("slow:step=1"),
                  "--inject slow: expected one of rank, ms, got \"step\"");
  EXPECT_ERROR_OF(UsageError, parsed("slow:rank"),
                  "--inject slow: expected rank=value, got \"rank\"");
  EXPECT_ERROR_OF(UsageError, parsed("slow:ms=fast"),
                  "--inject slow:ms: expected a number from 0 to 1000000, got \"fast\"");
  EXPECT_THROW(parsed("slow:"), UsageError);
  EXPECT_THROW(parsed("slow:ms=1,"), UsageError);
  EXPECT_THROW(parsed("nan:step=0"), UsageError);
  EXPECT_THROW(parsed("nan:rank=-1"), UsageError);
}

TEST(Inject, OnlyTheChosenRankHasTheFault) {
  test::thread_world(2, [](dist::Communicator& comm) {
    const bool chosen = comm.rank() == 1;
    EXPECT_EQ(FaultInjector(parsed("other_seed"), comm).weight_seed(5), chosen ? 6U : 5U);
    EXPECT_EQ(FaultInjector(std::nullopt, comm).weight_seed(5), 5U);

    const auto model = make_network({{2, 3, 2}, true}, 0, kCpu);
    const auto listed = FaultInjector(parsed("skip_param"), comm).parameters(model->parameters());
    EXPECT_EQ(listed[0].grad_state() == model->parameters()[0].grad_state(), !chosen);
    EXPECT_EQ(listed[0].name(), "0.weight");
    EXPECT_EQ(listed[0].data().to_vector<float>(),
              model->parameters()[0].data().to_vector<float>());
    EXPECT_EQ(listed[1].grad_state(), model->parameters()[1].grad_state());

    const auto options =
        FaultInjector(parsed("swap_buckets"), comm).synchronisation({.bucket_bytes = 64}, listed);
    EXPECT_EQ(options.plan, chosen ? (dist::BucketPlan{{1}, {0}, {3}, {2}}) : dist::BucketPlan{});
  });
}

TEST(Inject, ABitOfTheFirstWeightFlipsOnceInItsStepAndOnlyInTraining) {
  test::thread_world(2, [](dist::Communicator& comm) {
    const auto model = make_network({{2, 2}, true}, 0, kCpu);
    const autograd::Variable weight = model->parameters()[0];
    const auto others = [&] {
      const auto values = weight.data().to_vector<float>();
      return std::vector<float>(values.begin() + 1, values.end());
    };
    const float before = weight.data().to_vector<float>()[0];
    const std::vector<float> others_before = others();
    FaultInjector faults(parsed("bit_flip:step=2"), comm);
    nn::Module& trained = faults.around(*model, /*accum=*/2, /*steps=*/4);
    const autograd::Variable x(Tensor::zeros({1, 2}));
    std::vector<bool> flipped;
    for (int forward = 0; forward < 6; ++forward) {
      {
        const autograd::NoGradGuard evaluation;
        const float unchanged = weight.data().to_vector<float>()[0];
        trained.forward(x);
        EXPECT_EQ(weight.data().to_vector<float>()[0], unchanged);
      }
      trained.forward(x);
      const float ratio = weight.data().to_vector<float>()[0] / before;
      flipped.push_back(ratio == 0.5F || ratio == 2.0F);
      EXPECT_EQ(flipped.back(), ratio != 1.0F);
    }
    const bool chosen = comm.rank() == 1;
    EXPECT_EQ(flipped, (std::vector<bool>{false, false, chosen, chosen, chosen, chosen}));
    EXPECT_EQ(others(), others_before);
  });
}

TEST(Inject, TheNanComesInItsStepAndOnlyInTraining) {
  test::thread_world(2, [](dist::Communicator& comm) {
    const auto model = make_network({{2, 2}, true}, 0, kCpu);
    FaultInjector faults(parsed("nan:step=2"), comm);
    nn::Module& trained = faults.around(*model, /*accum=*/2, /*steps=*/4);
    const autograd::Variable x(Tensor::zeros({1, 2}));
    std::vector<bool> bad;
    for (int forward = 0; forward < 6; ++forward) {
      bad.push_back(std::isnan(trained.forward(x).data().to_vector<float>()[0]));
      const autograd::NoGradGuard evaluation;
      EXPECT_FALSE(std::isnan(trained.forward(x).data().to_vector<float>()[0]));
    }
    const bool chosen = comm.rank() == 1;
    EXPECT_EQ(bad, (std::vector<bool>{false, false, chosen, false, false, false}));
    EXPECT_EQ(x.data().to_vector<float>(), (std::vector<float>{0, 0})) << "the batch is not ours";
  });
}

}  // namespace
}  // namespace brigade::apps
