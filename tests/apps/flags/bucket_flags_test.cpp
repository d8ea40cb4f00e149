#include <gmock/gmock.h>

#include "apps/flags/options.h"
#include "apps/flags/rules.h"
#include "apps/training/setup.h"
#include "dist/comm/single_process.h"

namespace brigade::apps {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

ParseResult parse(std::vector<const char*> flags, Program program = Program::train_mlp) {
  flags.insert(flags.begin(), "program");
  return parse_options(static_cast<int>(flags.size()), flags.data(), program);
}

Options parsed(const std::vector<const char*>& flags) {
  const ParseResult result = parse(flags);
  EXPECT_TRUE(result.options.has_value()) << result.text;
  return result.options.value_or(Options{});
}

TEST(BucketFlags, ReachDataParallel) {
  const dist::DataParallelOptions usual = parsed({}).data_parallel();
  EXPECT_EQ(usual.bucket_bytes, 25U << 20U);
  EXPECT_FALSE(usual.split_tensors);
  EXPECT_FALSE(usual.piece_bytes.has_value());
  EXPECT_TRUE(usual.rebuild_buckets);

  const auto small = parsed({"--bucket-mb", "4", "--split-tensors"}).data_parallel();
  EXPECT_EQ(small.bucket_bytes, 4U << 20U);
  EXPECT_TRUE(small.split_tensors);
}

TEST(BucketFlags, WithoutEffectAreNamed) {
  const auto idle = [](const std::vector<const char*>& flags) { return idle_flags(parsed(flags)); };
  EXPECT_THAT(idle({"--mode", "naive", "--split-tensors"}),
              ElementsAre("--split-tensors: naive sends every parameter whole"));
  EXPECT_THAT(idle({"--mode", "per_param", "--split-tensors"}), IsEmpty());
}

TEST(BucketContents, NameTheParametersOfEveryPiece) {
  dist::SingleProcessCommunicator comm(kCpu);
  const auto model = make_mlp({{16, 16}, true}, 0, kCpu);  // bias 64 bytes, weight 1024
  const dist::GradAverager parallel(
      model->parameters(), comm, {.bucket_bytes = 2048, .split_tensors = true, .piece_bytes = 576});
  const auto contents = bucket_contents(parallel);
  EXPECT_EQ(contents.size(), 2U);
  EXPECT_THAT(contents, Contains(Pair("bucket_0[1/2]", "0.weight")));
  EXPECT_THAT(contents, Contains(Pair("bucket_0[2/2]", "0.weight, 0.bias")));
  const std::vector<BucketInfo> described = describe_buckets(parallel);
  ASSERT_EQ(described.size(), 1U);
  EXPECT_EQ(described[0].pieces, (std::vector<std::size_t>{512, 576}));
}

}  // namespace
}  // namespace brigade::apps
