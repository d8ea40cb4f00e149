#include "apps/flags/hook_flag.h"

#include <gmock/gmock.h>

#include "apps/compare/comparison.h"
#include "tests/apps/flags/parsed.h"
#include "tests/support/expect_error.h"

namespace brigade::apps {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(HookFlag, ChoosesAHook) {
  const auto name = [](const char* text) {
    return parsed({"--comm-hook", text}).data_parallel().hook->name();
  };
  EXPECT_EQ(parsed({}).data_parallel().hook->name(), "none");
  for (const char* text : {"none", "fp16", "bf16", "powersgd:rank=4", "topk:ratio=0.01"}) {
    EXPECT_EQ(name(text), text);
  }
}

TEST(HookFlag, SaysAsWhatNumbersTravel) {
  EXPECT_EQ(wire_type("none"), DType::f32);
  EXPECT_EQ(wire_type("fp16"), DType::f16);
  EXPECT_EQ(wire_type("bf16"), DType::bf16);
  EXPECT_EQ(wire_type("powersgd:rank=2"), std::nullopt);
  EXPECT_EQ(wire_type("topk:ratio=0.1"), std::nullopt);
}

TEST(HookFlag, EachDataParallelGetsAHookOfItsOwn) {
  const Options options = parsed({"--comm-hook", "bf16"});
  EXPECT_NE(options.data_parallel().hook, options.data_parallel().hook);
}

TEST(HookFlag, SaysWhatIsWrongWithAHook) {
  EXPECT_EQ(complaint({"--comm-hook", "bfl16"}),
            "train_mlp: --comm-hook: expected none, fp16, bf16, powersgd:rank=R or topk:ratio=X, "
            "got \"bfl16\"; did you mean bf16?\n");
  EXPECT_THAT(complaint({"--comm-hook", "powersgd"}), HasSubstr("did you mean powersgd:rank=4?"));
  EXPECT_THAT(complaint({"--comm-hook", "topk:0.1"}), HasSubstr("did you mean topk:ratio=0.01?"));
  EXPECT_EQ(complaint({"--comm-hook", "powersgd:rank=0"}),
            "train_mlp: --comm-hook powersgd:rank: expected a whole number from 1 to 1000, got "
            "\"0\"\n");
  EXPECT_EQ(complaint({"--comm-hook", "topk:ratio=1.5"}),
            "train_mlp: --comm-hook topk:ratio: expected a number greater than 0 to 1, got "
            "\"1.5\"\n");
}

TEST(HookFlag, RefusesWhatHasNothingToCompress) {
  EXPECT_EQ(complaint({"--comm-hook", "fp16", "--mode", "naive"}),
            "train_mlp: --comm-hook fp16: expected a mode with buckets to compress, got naive; use "
            "flat, per_param, overlap or no_sync\n");
  EXPECT_THAT(
      complaint({"--comm-hook", "fp16", "--modes", "overlap,naive"}, Program::compare_modes),
      HasSubstr("expected a mode with buckets"));
  EXPECT_EQ(complaint({"--comm-hook", "topk:ratio=0.1", "--reduce", "deterministic"}),
            "train_mlp: --reduce deterministic: expected sums in rank order, got --comm-hook "
            "topk:ratio=0.1, whose result depends on the buckets\n");
  EXPECT_FALSE(parse({"--comm-hook", "bf16", "--reduce", "deterministic"}).exit.has_value());
  EXPECT_FALSE(parse({"--comm-hook", "none", "--mode", "naive"}).exit.has_value());
}

TEST(HookFlag, AComparisonLeavesNaiveOut) {
  const Options options = parsed({"--comm-hook", "bf16"}, Program::compare_modes);
  EXPECT_THAT(options.modes, ElementsAre("flat", "per_param", "overlap"));
  EXPECT_GT(rounding_tolerance(options), 1e100) << "approximations may differ";
  EXPECT_LT(rounding_tolerance(parsed({}, Program::compare_modes)), 1e-5);
  const Options mixed = parsed({"--dtype", "bf16"}, Program::compare_modes);
  EXPECT_GT(rounding_tolerance(mixed), 1e-3) << "a last bit may decide how a number is rounded";
}

TEST(HookFlag, RanksMustAgreeOnIt) {
  EXPECT_THAT(parsed({"--comm-hook", "topk:ratio=0.5"}).agreement(),
              Contains("comm-hook = \"topk:ratio=0.5\""));
}

TEST(CompressionRatio, IsOneForAnAllReduceThatSendsTheLeast) {
  EXPECT_DOUBLE_EQ(compression_ratio(2, 100.0, 100.0), 1.0);
  EXPECT_DOUBLE_EQ(compression_ratio(4, 100.0, 150.0), 1.0);
  EXPECT_DOUBLE_EQ(compression_ratio(4, 100.0, 75.0), 2.0);
  EXPECT_DOUBLE_EQ(compression_ratio(1, 100.0, 0.0), 0.0) << "nothing sent";
}

}  // namespace
}  // namespace brigade::apps
