#include "apps/flags/bucket_flags.h"

#include <gmock/gmock.h>

#include "apps/flags/options.h"
#include "apps/training/setup.h"
#include "dist/comm/single_process.h"

namespace brigade::apps {
namespace {

using testing::Contains;
using testing::HasSubstr;
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

  const dist::DataParallelOptions pieces = parsed({"--piece-mb", "0.5"}).data_parallel();
  EXPECT_EQ(pieces.piece_bytes, 512U << 10U);
  EXPECT_TRUE(pieces.split_tensors);
}

TEST(BucketFlags, ChooseAGrouping) {
  const auto grouping = [](const char* text) {
    return to_string(dist::bucket_policy(parsed({"--bucket-by", text}).data_parallel()));
  };
  EXPECT_EQ(grouping("layer"), "layer");
  EXPECT_EQ(grouping("halves"), "halves");
  EXPECT_EQ(grouping("2"), "halves");
  EXPECT_EQ(grouping("7"), "7 groups");
  EXPECT_THAT(grouping("size"), HasSubstr("size"));
}

TEST(BucketFlags, RefuseWhatIsNoGrouping) {
  EXPECT_EQ(complaint({"--bucket-by", "layr"}),
            "train_mlp: --bucket-by: expected size, layer, halves or a number of groups, got "
            "\"layr\"; did you mean layer?\n");
  EXPECT_EQ(complaint({"--bucket-by", "0"}),
            "train_mlp: --bucket-by: expected a whole number from 1 to 1000000, got \"0\"\n");
  EXPECT_THAT(complaint({"--bucket-by", ""}), HasSubstr("got \"\""));
}

TEST(BucketFlags, RefuseCapsThatNothingIsFilledUpTo) {
  EXPECT_EQ(complaint({"--bucket-by", "halves", "--last-bucket-mb", "1"}),
            "train_mlp: --last-bucket-mb: expected --bucket-by size, got halves: only buckets that "
            "are filled up to a cap have one\n");
  EXPECT_THAT(complaint({"--bucket-by", "3", "--first-bucket-mb", "1"}),
              HasSubstr("--first-bucket-mb: expected --bucket-by size"));
}

TEST(BucketFlags, RefuseAModeWithoutBuckets) {
  EXPECT_EQ(complaint({"--mode", "per_param", "--bucket-by", "layer"}),
            "train_mlp: --bucket-by: expected a mode with buckets, flat, overlap or no_sync, got "
            "per_param, which sends every parameter by itself\n");
  EXPECT_THAT(complaint({"--mode", "naive", "--last-bucket-mb", "1"}),
              HasSubstr("--last-bucket-mb: expected a mode with buckets"));
  const auto compares = [](const char* modes) {
    return parse({"--modes", modes, "--bucket-by", "layer"}, Program::compare_modes).exit_code;
  };
  EXPECT_EQ(compares("naive,per_param"), 2);
  EXPECT_EQ(compares("naive,overlap"), 0) << "one of them has buckets";
}

TEST(BucketFlags, RefuseToSplitWhatTravelsWhole) {
  EXPECT_EQ(
      complaint({"--split-tensors", "--bucket-mb", "0"}),
      "train_mlp: --split-tensors: expected --bucket-mb greater than 0, got 0: it is the size "
      "of a piece\n");
  EXPECT_EQ(complaint({"--split-tensors", "--mode", "naive"}),
            "train_mlp: --split-tensors: expected another mode than naive, which sends every "
            "parameter whole\n");
  EXPECT_EQ(parse({"--split-tensors", "--mode", "per_param"}).exit_code, 0);
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
