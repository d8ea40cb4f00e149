#include "nn/data/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace brigade::data {
namespace {

using testing::ElementsAre;

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

Batch read_samples(const Dataset& dataset, const std::vector<std::int64_t>& samples) {
  return load_batch(dataset, samples, kCpu);
}

TEST(TextDataset, CutsTokensIntoSequencesWithTheNextTokenAsTarget) {
  const TextDataset dataset({0, 1, 2, 3, 4, 5, 6, 7}, 16, /*context=*/3, /*vocabulary=*/9);
  EXPECT_EQ(dataset.size(), 2);  // the last token has no successor
  EXPECT_EQ(dataset.output_width(), 9);
  EXPECT_EQ(dataset.bytes_per_target(), 2.0);
  const Batch batch = read_samples(dataset, {1, 0});
  EXPECT_EQ(batch.inputs.shape(), (Shape{2, 3}));
  EXPECT_THAT(batch.inputs.to_vector<std::int64_t>(), ElementsAre(3, 4, 5, 0, 1, 2));
  EXPECT_THAT(batch.targets.to_vector<std::int64_t>(), ElementsAre(4, 5, 6, 1, 2, 3));
}

TEST(TextDataset, NeedsAContext) {
  EXPECT_ERROR(TextDataset({1, 2}, 2, 0, 3), "text: expected a context of at least 1 token, got 0");
}

TEST(TextDataset, KnowsWhetherTwoRanksHaveTheSameText) {
  const TextDataset a({1, 2, 3}, 3, 2, 9);
  EXPECT_EQ(a.checksum(), TextDataset({1, 2, 3}, 3, 2, 9).checksum());
  EXPECT_NE(a.checksum(), TextDataset({1, 2, 4}, 3, 2, 9).checksum());
}

TEST(LoadText, LeavesTheLastTenthOfAFileForTesting) {
  const TemporaryDirectory dir;
  write(dir / "a.txt", std::string(90, 'a') + std::string(10, 'b'));
  const DataSplits data = load_text(dir / "a.txt", ByteTokenizer(), 3);
  EXPECT_EQ(data.train->size(), 89 / 3);
  EXPECT_EQ(data.test->size(), 3);
  EXPECT_THAT(read_samples(*data.test, {0}).inputs.to_vector<std::int64_t>(),
              ElementsAre('b', 'b', 'b'));
}

TEST(LoadText, OfFewFilesLeavesTheLastTenthForTesting) {
  const TemporaryDirectory dir;
  write(dir / "a", std::string(50, 'a'));
  write(dir / "b", std::string(50, 'b'));
  const DataSplits data = load_text(dir.path(), ByteTokenizer(), 3);
  EXPECT_EQ(data.train->size(), 89 / 3);
  EXPECT_EQ(data.test->size(), 3);
}

TEST(LoadText, LeavesOutWhatARunHasWritten) {
  const TemporaryDirectory dir;
  write(dir / "a", std::string(100, 'a'));
  write(dir / "gpt" / "metrics.jsonl", std::string(100, 'm'));
  write(dir / "gpt" / "checkpoints" / "checkpoint.json", std::string(100, 'c'));
  EXPECT_EQ(load_text(dir.path(), ByteTokenizer(), 3).train->size(), 89 / 3);
}

TEST(LoadText, ReadsADirectoryInTheOrderOfItsPathsAndEveryTenthFileForTesting) {
  const TemporaryDirectory dir;
  for (int i = 0; i < 10; ++i) {
    write(dir / "b" / std::to_string(i), std::string(4, static_cast<char>('0' + i)));
  }
  write(dir / ".git" / "config", "hidden");
  write(dir / "build" / "x.h", "generated");
  write(dir / "a" / "program", std::string("\0binary", 7));
  const DataSplits data = load_text(dir.path(), ByteTokenizer(), 3);
  // a/program has no text, so b/9 is the tenth that has.
  EXPECT_EQ(data.train->size(), 35 / 3);
  EXPECT_THAT(read_samples(*data.train, {0, 1}).inputs.to_vector<std::int64_t>(),
              ElementsAre('0', '0', '0', '0', '1', '1'));
  EXPECT_THAT(read_samples(*data.test, {0}).inputs.to_vector<std::int64_t>(),
              ElementsAre('9', '9', '9'));
}

TEST(LoadText, PassesOverLinksThatLeadNowhere) {
  const TemporaryDirectory dir;
  write(dir / "a", std::string(100, 'a'));
  std::filesystem::create_symlink("loop", dir / "loop");
  std::filesystem::create_symlink("none", dir / "dangling");
  EXPECT_EQ(load_text(dir.path(), ByteTokenizer(), 3).train->size(), 89 / 3);
}

TEST(LoadText, SaysWhatIsMissing) {
  const TemporaryDirectory dir;
  EXPECT_ERROR_WITH(load_text(dir / "none", ByteTokenizer(), 3), "No such file");
  EXPECT_ERROR_WITH(load_text(dir.path(), ByteTokenizer(), 3),
                    "text: expected a file of text or a directory of such");
  write(dir / "short", "0123456789");
  EXPECT_ERROR_WITH(
      load_text(dir / "short", ByteTokenizer(), 3),
      "text: expected more than 3 tokens (--context) to train on and to test with, got 1");
}

}  // namespace
}  // namespace brigade::data
