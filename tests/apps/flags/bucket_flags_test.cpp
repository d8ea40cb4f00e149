#include <gmock/gmock.h>

#include "apps/flags/options.h"
#include "apps/flags/rules.h"
#include "apps/training/setup.h"
#include "dist/comm/single_process.h"

namespace brigade::apps {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
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

std::string complaint(const std::vector<const char*>& flags) {
  const ParseResult result = parse(flags);
  EXPECT_EQ(result.exit_code, 2);
  return result.text;
}

TEST(BucketFlags, ReachDataParallel) {
  const dist::DataParallelOptions usual = parsed({}).data_parallel();
  EXPECT_EQ(usual.bucket_bytes, 25U << 20U);
  EXPECT_EQ(usual.bucket_by, dist::BucketBy::size);
  EXPECT_FALSE(usual.first_bucket_bytes.has_value());
  EXPECT_FALSE(usual.last_bucket_bytes.has_value());
  EXPECT_FALSE(usual.split_tensors);
  EXPECT_FALSE(usual.piece_bytes.has_value());
  EXPECT_TRUE(usual.rebuild_buckets);

  const dist::DataParallelOptions caps =
      parsed({"--bucket-mb", "4", "--first-bucket-mb", "1", "--last-bucket-mb", "0",
              "--split-tensors", "--no-rebuild"})
          .data_parallel();
  EXPECT_EQ(caps.bucket_bytes, 4U << 20U);
  EXPECT_EQ(caps.first_bucket_bytes, 1U << 20U);
  EXPECT_EQ(caps.last_bucket_bytes, 0U);
  EXPECT_TRUE(caps.split_tensors);
  EXPECT_FALSE(caps.rebuild_buckets);
}

TEST(BucketFlags, ChooseAGrouping) {
  const auto grouping = [](const char* text) {
    return to_string(dist::bucket_policy(parsed({"--bucket-by", text}).data_parallel()));
  };
  EXPECT_EQ(grouping("layer"), "layer");
  EXPECT_THAT(grouping("size"), HasSubstr("size"));
}

TEST(BucketFlags, RefuseWhatIsNoGrouping) {
  EXPECT_EQ(complaint({"--bucket-by", "layr"}),
            "train_mlp: --bucket-by: expected one of size, layer, got \"layr\"; did you mean "
            "layer?\n");
  EXPECT_THAT(complaint({"--bucket-by", ""}), HasSubstr("got \"\""));
}

TEST(BucketFlags, WithoutEffectAreNamed) {
  const auto idle = [](const std::vector<const char*>& flags) { return idle_flags(parsed(flags)); };
  EXPECT_THAT(idle({"--bucket-by", "layer", "--last-bucket-mb", "1"}),
              ElementsAre("--first-bucket-mb, --last-bucket-mb: with --bucket-by layer a bucket is "
                          "a layer"));
  EXPECT_THAT(idle({"--mode", "per_param", "--bucket-by", "layer"}),
              ElementsAre(HasSubstr("in mode per_param every parameter travels by itself")));
  EXPECT_THAT(idle({"--mode", "naive", "--split-tensors"}),
              ElementsAre("--split-tensors: naive sends every parameter whole"));
  const Options compared =
      parse({"--modes", "naive,overlap", "--bucket-by", "layer"}, Program::compare_modes)
          .options.value();
  EXPECT_THAT(idle_flags(compared), IsEmpty()) << "one of them has buckets";
  EXPECT_THAT(idle({"--mode", "per_param", "--split-tensors"}), IsEmpty());
}

TEST(BucketFlags, MustBeAlikeOnAllRanks) {
  const std::vector<std::string> usual = parsed({}).agreement();
  for (const char* flag : {"--split-tensors", "--no-rebuild", "--bucket-by=layer",
                           "--first-bucket-mb=1", "--last-bucket-mb=1"}) {
    EXPECT_NE(parsed({flag}).agreement(), usual) << flag;
  }
}

TEST(BucketContents, NameTheParametersOfEveryPiece) {
  dist::SingleProcessCommunicator comm(kCpu);
  const auto model = make_mlp({{16, 16}, true}, 0, kCpu);  // bias 64 bytes, weight 1024
  const dist::GradAverager parallel(
      model->parameters(), comm,
      {.bucket_bytes = 576, .bucket_by = dist::BucketBy::layer, .split_tensors = true});
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
