#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "core/random.h"
#include "dist/hooks/half_hook.h"
#include "dist/hooks/power_sgd.h"
#include "dist/hooks/top_k.h"
#include "tests/dist/checkpoint/checkpointed_training.h"
#include "tests/support/small_training.h"
#include "tests/support/temporary_directory.h"

namespace brigade::dist {
namespace {

struct Case {
  std::string name;
  Training training;
  int ranks = 2;
};

std::vector<Case> cases() {
  const auto hook = [](auto make) { return Training{.hook = make}; };
  return {
      {"plain", {}},
      {"one_rank", {}, 1},
      {"three_ranks", {}, 3},
      {"naive", {.mode = SyncMode::naive}},
      {"flat", {.mode = SyncMode::flat}},
      {"per_param", {.mode = SyncMode::per_param}},
      {"adam", {.adam = true}},
      {"cross_step", {.cross_step = true}},
      {"cross_step_adam", {.adam = true, .cross_step = true}},
      {"sharded", {.sharded = true}},
      // A bias is smaller than a line, so one rank has all of it.
      {"sharded_per_param", {.mode = SyncMode::per_param, .adam = true, .sharded = true}, 3},
      {"sharded_adam_rebuilt", {.adam = true, .sharded = true, .rebuilt = true}, 3},
      {"dropout", {.dropout = true}},
      {"bf16", hook([] { return std::make_shared<HalfHook>(DType::bf16); })},
      {"powersgd", hook([] { return std::make_shared<PowerSgd>(2); })},
      {"topk", hook([] { return std::make_shared<TopK>(0.1); })},
      {"rebuilt_topk", {.hook = [] { return std::make_shared<TopK>(0.1); }, .rebuilt = true}},
  };
}

class ResumesToTheBit : public testing::TestWithParam<Case> {};

TEST_P(ResumesToTheBit, AfterAnyStep) {
  const auto& [name, training, ranks] = GetParam();
  const TemporaryDirectory directory;
  const std::vector<float> whole = train(ranks, directory / "whole", training);
  for (const std::int64_t stop : {1, 2, 4, 6}) {  // an epoch has four steps
    Training first = training;
    first.checkpoints.every = stop;
    first.steps = stop;
    const fs::path place = directory / std::to_string(stop);
    train(ranks, place, first);
    EXPECT_EQ(train(ranks, place, training), whole) << "after step " << stop;
  }
}

TEST(Resumes, AnOptimizerThatOtherRanksShared) {
  for (const bool sharded : {false, true}) {
    const TemporaryDirectory directory;
    Training training{.adam = true};
    const std::vector<float> whole = train(1, directory / "whole", training);
    training.sharded = true;
    training.checkpoints.every = 4;
    training.steps = 4;
    train(2, directory / "run", training);
    training.steps = 9;
    training.sharded = sharded;
    EXPECT_LT(test::relative_l2(train(3, directory / "run", training), whole), 1e-5);
  }
}

// The old ranks' streams are not those of the new ranks, and several would have the same one.
TEST(Resumes, WithItsOwnDropoutOnAnotherNumberOfRanks) {
  constexpr std::uint64_t kOld = 1000;
  const TemporaryDirectory directory;
  Training training{.dropout = true};
  training.checkpoints.every = 2;
  training.steps = 2;
  train(2, directory.path(), training, [](std::int64_t) {
    set_dropout_position({.seed = kOld, .sequence = dropout_position().sequence});
  });
  const auto saved = dropout_position();  // this thread has drawn nothing
  training.steps = 3;
  train(3, directory.path(), training, [&](std::int64_t) {
    EXPECT_NE(dropout_position().seed, kOld);
    EXPECT_EQ(dropout_position().sequence, saved.sequence + 3) << "three dropouts in all";
  });
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ResumesToTheBit, testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace brigade::dist
