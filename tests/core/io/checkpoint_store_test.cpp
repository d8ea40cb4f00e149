#include "core/io/checkpoint_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <numeric>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class CheckpointStoreTest : public testing::Test {
 protected:
  void save(std::int64_t step, std::size_t keep = 0) const {
    const Tensor weights = Tensor::from(std::vector<float>{1.0F, static_cast<float>(step)}, {2});
    store_.write(step, "model.safetensors", {{"w", weights}});
    store_.publish(
        {.step = step, .ranks = 2, .run = {"seed 1"}, .layout = "flat", .buckets = {{"w"}}},
        {"model.safetensors"}, keep);
  }

  /// Overwrites one byte.
  static void change(const fs::path& path, std::streamoff at, char byte) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.put(byte);
  }

  void expect_refused(std::int64_t step, const std::string& reason) const {
    EXPECT_THAT([&] { store_.check(step); }, ThrowsMessage<UsageError>(HasSubstr(reason)));
  }

  TemporaryDirectory directory_;
  CheckpointStore store_{directory_ / "checkpoints"};
};

TEST_F(CheckpointStoreTest, GivesBackWhatWasWritten) {
  save(500);
  const CheckpointInfo info = store_.check(500);
  EXPECT_EQ(info.step, 500);
  EXPECT_EQ(info.ranks, 2);
  EXPECT_THAT(info.run, ElementsAre("seed 1"));
  EXPECT_EQ(info.layout, "flat");
  EXPECT_THAT(info.buckets, ElementsAre(ElementsAre("w")));
  const NamedTensors tensors = store_.read(500, "model.safetensors");
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_EQ(tensors[0].first, "w");
  EXPECT_THAT(tensors[0].second.to_vector<float>(), ElementsAre(1.0F, 500.0F));
}

// More than one piece of AtomicFile's, and a rest.
TEST_F(CheckpointStoreTest, KnowsTheChecksumOfAFileFromWritingIt) {
  std::vector<float> many(3'000'000);
  std::iota(many.begin(), many.end(), 0.0F);
  CheckpointInfo info{.step = 7};
  info.files["m"] = store_.write(7, "m", {{"w", Tensor::from(many, {std::ssize(many)})}});
  store_.publish(info, {"m"}, 0);
  EXPECT_EQ(store_.check(7).files.at("m"), info.files.at("m"));
  EXPECT_EQ(store_.read(7, "m")[0].second.to_vector<float>(), many);
}

TEST_F(CheckpointStoreTest, ListsTheNewestFirstAlsoBeyondTheDigitsOfAName) {
  for (const std::int64_t step : {5, 40, 1'234'567'890}) {
    save(step);
  }
  EXPECT_THAT(store_.steps(), ElementsAre(1'234'567'890, 40, 5));
  EXPECT_EQ(store_.path_of(40).filename(), "step-000000040");
}

TEST_F(CheckpointStoreTest, KeepsTheNewest) {
  for (std::int64_t step = 1; step <= 5; ++step) {
    save(step, /*keep=*/2);
  }
  EXPECT_THAT(store_.steps(), ElementsAre(5, 4));
}

TEST_F(CheckpointStoreTest, HasNoneWithoutADirectory) {
  EXPECT_THAT(store_.steps(), IsEmpty());
  store_.remove_unfinished();
}

TEST_F(CheckpointStoreTest, IsNotFooledByOtherNames) {
  save(7);
  for (const char* name :
       {"step-", "step-x", "step-7x", "step--3", "other", "step-8.tmp", "step-9"}) {
    fs::create_directory(directory_ / "checkpoints" / name);
  }
  EXPECT_THAT(store_.steps(), ElementsAre(7));
}

TEST_F(CheckpointStoreTest, WhatWasNotPublishedIsNoCheckpointAndGoes) {
  save(7);
  store_.write(8, "model.safetensors", {{"w", Tensor::zeros({2})}});
  EXPECT_TRUE(store_.written(8, "model.safetensors"));
  EXPECT_FALSE(store_.written(8, "optimizer.safetensors"));
  EXPECT_THAT(store_.steps(), ElementsAre(7));
  store_.remove_unfinished();
  EXPECT_FALSE(store_.written(8, "model.safetensors"));
  EXPECT_THAT(store_.steps(), ElementsAre(7));
}

TEST_F(CheckpointStoreTest, ReplacesOneOfTheSameStep) {
  save(7);
  change(store_.path_of(7) / "model.safetensors", 100, '!');
  save(7);
  EXPECT_EQ(store_.check(7).step, 7);
}

TEST_F(CheckpointStoreTest, ANewOneTakesThePlaceOfLaterOnes) {
  for (const std::int64_t step : {3, 9, 4}) {
    save(step, /*keep=*/2);
  }
  EXPECT_THAT(store_.steps(), ElementsAre(4, 3));
}

TEST_F(CheckpointStoreTest, DiscardsWhatWasWritten) {
  store_.write(8, "model.safetensors", {{"w", Tensor::zeros({2})}});
  store_.discard(8);
  EXPECT_FALSE(store_.written(8, "model.safetensors"));
}

TEST_F(CheckpointStoreTest, RefusesAChangedByte) {
  save(7);
  change(store_.path_of(7) / "model.safetensors", 70, '!');
  expect_refused(7, "its bytes have changed since it was written");
}

TEST_F(CheckpointStoreTest, RefusesAChangedBitAnywhereInItsText) {
  save(7);
  const fs::path path = store_.path_of(7) / "checkpoint.json";
  const std::string text = store_.check(7).to_json();
  for (std::size_t i = 0; i < text.size(); ++i) {
    change(path, static_cast<std::streamoff>(i), static_cast<char>(text[i] ^ 1));
    EXPECT_THROW(store_.check(7), UsageError) << "byte " << i;
    change(path, static_cast<std::streamoff>(i), text[i]);
  }
  EXPECT_EQ(store_.check(7).step, 7);
}

TEST_F(CheckpointStoreTest, RefusesATruncatedFile) {
  save(7);
  const fs::path file = store_.path_of(7) / "model.safetensors";
  fs::resize_file(file, fs::file_size(file) - 1);
  expect_refused(7, "bytes, got");
}

TEST_F(CheckpointStoreTest, RefusesAMissingFile) {
  save(7);
  fs::remove(store_.path_of(7) / "model.safetensors");
  expect_refused(7, "model.safetensors: No such file or directory");
  fs::remove(store_.path_of(7) / "checkpoint.json");
  expect_refused(7, "No such file or directory");
}

TEST_F(CheckpointStoreTest, DoesNotWaitForAPipe) {
  save(7);
  for (const char* name : {"model.safetensors", "checkpoint.json"}) {
    fs::remove(store_.path_of(7) / name);
    ASSERT_EQ(mkfifo((store_.path_of(7) / name).c_str(), 0600), 0);
    expect_refused(7, std::string(name) + ": it is not a regular file");
  }
}

TEST_F(CheckpointStoreTest, RefusesACheckpointUnderAnotherName) {
  save(7);
  fs::rename(store_.path_of(7), store_.path_of(9));
  expect_refused(9, "it is the checkpoint of step 7");
}

TEST(CheckpointInfo, IsReadBackFromItsText) {
  const CheckpointInfo info{.step = 3,
                            .ranks = 4,
                            .run = {"a \"b\"", "c"},
                            .layout = "l",
                            .buckets = {{"x"}, {}},
                            .files = {{"m", {.bytes = 9, .xxh3 = 0xffff'ffff'ffff'ffff}}}};
  const CheckpointInfo read = CheckpointInfo::parse(info.to_json(), "s");
  EXPECT_EQ(read.to_json(), info.to_json());
  EXPECT_EQ(read.files.at("m").xxh3, 0xffff'ffff'ffff'ffffU);
}

TEST(CheckpointInfo, RefusesAnyOtherText) {
  const std::string good = CheckpointInfo{.files = {{"m", {}}}}.to_json();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  const std::vector<std::string> texts{"",
                                       "[]",
                                       "{}",
                                       good.substr(0, good.size() / 2),
                                       with("brigade checkpoint 2", "brigade checkpoint 3"),
                                       with("\"step\": 0", "\"step\": -1"),
                                       with("\"step\": 0", "\"step\": \"0\""),
                                       with("\"step\": 0", "\"step\": 1.5"),
                                       with("\"step\": 0", "\"step\": 1e300"),
                                       with("\"ranks\": 1", "\"ranks\": 0"),
                                       with("\"ranks\": 1", "\"ranks\": 4294967297"),
                                       with("\"m\"", "\"../m\""),
                                       with("\"m\"", "\"..\""),
                                       with("\"m\"", "\"\""),
                                       with("\"bytes\": 0", "\"bytes\": \"0\""),
                                       with("\"bytes\": 0", "\"bytes\": -1"),
                                       with("\"brigade checkpoint 2\"", deep)};
  for (const std::string& text : texts) {
    EXPECT_THAT([&] { CheckpointInfo::parse(text, "the file"); },
                ThrowsMessage<UsageError>(testing::StartsWith("the file: ")))
        << text;
  }
}

}  // namespace
}  // namespace brigade
