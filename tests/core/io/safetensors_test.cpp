#include "core/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "core/io/atomic_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// While it lives, no file of this process can grow beyond `bytes`: a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    previous_handler_ = signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, previous_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  sighandler_t previous_handler_ = nullptr;
};

TEST(Safetensors, BringsBackNamesShapesTypesAndBytes) {
  const TemporaryDirectory dir;
  const NamedTensors saved{
      {"0.weight", Tensor::from(std::vector<float>{1, -2, 3, 4, 5, 6}, {2, 3})},
      {"0.bias", Tensor::from(std::vector<double>{0.1, 0.2}, {2})},
      {"step", Tensor::from(std::vector<std::int64_t>{-7}, {})},
      {"pixels", Tensor::from(std::vector<std::uint8_t>{0, 255, 3}, {3})},
      {"half", Tensor::from(std::vector<Half>{{0x3c00}, {0x7bff}}, {2})},
      {"brain", Tensor::from(std::vector<BFloat16>{{0x3f80}}, {1})}};
  save_safetensors(dir / "w.safetensors", saved);
  const NamedTensors loaded = load_safetensors(dir / "w.safetensors");
  ASSERT_EQ(loaded.size(), saved.size());
  for (std::size_t i = 0; i < saved.size(); ++i) {
    EXPECT_EQ(loaded[i].first, saved[i].first);
    EXPECT_EQ(loaded[i].second.shape(), saved[i].second.shape());
    EXPECT_EQ(loaded[i].second.dtype(), saved[i].second.dtype());
  }
  EXPECT_THAT(loaded[0].second.to_vector<float>(), ElementsAre(1, -2, 3, 4, 5, 6));
  EXPECT_THAT(loaded[1].second.to_vector<double>(), ElementsAre(0.1, 0.2));
  EXPECT_THAT(loaded[2].second.to_vector<std::int64_t>(), ElementsAre(-7));
  EXPECT_THAT(loaded[3].second.to_vector<std::uint8_t>(), ElementsAre(0, 255, 3));
  EXPECT_THAT(loaded[4].second.to_vector<Half>(), ElementsAre(Half{0x3c00}, Half{0x7bff}));
  EXPECT_THAT(loaded[5].second.to_vector<BFloat16>(), ElementsAre(BFloat16{0x3f80}));
}

TEST(Safetensors, WritesTheFormatByteForByte) {
  const TemporaryDirectory dir;
  save_safetensors(dir / "w", {{"b", Tensor::from(std::vector<float>{1.0F}, {1})}});
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string expected(1, static_cast<char>((header.size() + 7) / 8 * 8));
  expected += std::string(7, '\0') + header;
  expected.resize((expected.size() + 7) / 8 * 8, ' ');
  expected += std::string("\x00\x00\x80\x3f", 4);
  EXPECT_EQ(read_file(dir / "w"), expected);
}

TEST(Safetensors, AlignsItsDataToEightBytes) {
  const TemporaryDirectory dir;
  for (const char* name : {"a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg"}) {
    save_safetensors(dir / "w", {{name, Tensor::zeros({2})}});
    EXPECT_EQ(fs::file_size(dir / "w") % 8, 0U) << name;
  }
}

TEST(Safetensors, KeepsTensorsWithoutElements) {
  const TemporaryDirectory dir;
  save_safetensors(dir / "w", {{"empty", Tensor::empty({0, 3})}, {"one", Tensor::zeros({1})}});
  const NamedTensors loaded = load_safetensors(dir / "w");
  ASSERT_EQ(loaded.size(), 2U);
  EXPECT_EQ(loaded[0].second.shape(), (Shape{0, 3}));
}

TEST(Safetensors, SavesAViewWithoutItsSurroundings) {
  const TemporaryDirectory dir;
  const Tensor flat = Tensor::from(std::vector<float>{1, 2, 3, 4}, {4});
  save_safetensors(dir / "w", {{"slice", flat.flat_view(1, {2})}});
  EXPECT_THAT(load_safetensors(dir / "w")[0].second.to_vector<float>(), ElementsAre(2, 3));
}

TEST(Safetensors, RefusesANameTwice) {
  const TemporaryDirectory dir;
  const Tensor one = Tensor::zeros({1});
  EXPECT_ERROR(save_safetensors(dir / "w", {{"a", one}, {"a", one}}),
               "safetensors: name a is given twice or reserved");
  EXPECT_ERROR(save_safetensors(dir / "w", {{"__metadata__", one}}),
               "safetensors: name __metadata__ is given twice or reserved");
  EXPECT_THROW(save_safetensors(dir / "w", {{"\xff", one}}), Error) << "JSON is UTF-8";
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(AtomicWrite, ReplacesTheOldFileAndLeavesNothingElse) {
  const TemporaryDirectory dir;
  write_file_atomically(dir / "summary.json", "old");
  write_file_atomically(dir / "summary.json", "new");
  EXPECT_EQ(read_file(dir / "summary.json"), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), {}), 1);
}

TEST(AtomicWrite, PassesOverWhatAKilledProcessLeftBehind) {
  const TemporaryDirectory dir;
  const fs::path left = dir / fmt::format("w.tmp{}-0", ::getpid());
  std::ofstream(left) << "half";
  write_file_atomically(dir / "w", "whole");
  EXPECT_EQ(read_file(dir / "w"), "whole");
  EXPECT_EQ(read_file(left), "half");
}

TEST(AtomicWrite, LeavesTheOldFileWhenTheDiskIsFull) {
  const TemporaryDirectory dir;
  save_safetensors(dir / "w", {{"a", Tensor::zeros({4})}});
  const std::string before = read_file(dir / "w");
  const std::string message = fmt::format("cannot write {}: File too large", (dir / "w").string());
  {
    const FileSizeLimit full(1024);
    EXPECT_ERROR_OF(Error, save_safetensors(dir / "w", {{"a", Tensor::zeros({4096})}}), message);
  }
  EXPECT_EQ(read_file(dir / "w"), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), {}), 1) << "temporary file left";
}

TEST(AtomicWrite, NamesTheSystemsReason) {
  const TemporaryDirectory dir;
  const fs::path path = dir / "missing" / "w";
  EXPECT_ERROR_OF(UsageError, write_file_atomically(path, "text"),
                  fmt::format("cannot write {}: No such file or directory", path.string()));
}

TEST(AtomicWrite, DoesNotReplaceADeviceOrDirectory) {
  const TemporaryDirectory dir;
  EXPECT_ERROR_OF(UsageError, write_file_atomically("/dev/null", "text"),
                  "cannot write /dev/null: it exists and is not a regular file");
  EXPECT_THROW(write_file_atomically(dir.path(), "text"), UsageError);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

}  // namespace
}  // namespace brigade
