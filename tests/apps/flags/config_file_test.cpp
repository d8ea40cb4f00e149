// --config FILE, such as an earlier run's config.toml.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>

#include "core/error.h"
#include "tests/apps/flags/parsed.h"
#include "tests/support/temporary_directory.h"

namespace brigade::apps {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

/// Flags of a run with this config.toml.
class ConfigFile : public testing::Test {
 protected:
  Options with(const std::string& lines, std::vector<const char*> flags = {}) {
    std::ofstream(path_) << lines;
    flags.insert(flags.begin(), {"--config", path_.c_str()});
    return parsed(flags);
  }
  std::string complaint_about(const std::string& lines) {
    std::ofstream(path_) << lines;
    return complaint({"--config", path_.c_str()});
  }

  TemporaryDirectory directory_;
  std::string path_ = (directory_.path() / "config.toml").string();
};

TEST_F(ConfigFile, HoldsEveryFlagThatWasGiven) {
  const Options first =
      parsed({"--cross-step", "--depth", "3", "--width", "16", "--lr", "0.123456789012345",
              "--no-shuffle", "--emulate-link", "50,1.5", "--inject", "slow:rank=0", "--comm-hook",
              "fp16", "--out", "runs/x", "--json", "--global-batch", "8"});
  const std::string lines = fmt::format("{}\n", fmt::join(first.config, "\n"));
  const Options again = with(lines);
  EXPECT_EQ(again.config, first.config);
  EXPECT_EQ(again.lr, first.lr) << "every digit";
  EXPECT_EQ(again.hidden, first.hidden);
  EXPECT_EQ(again.bucket_mb, first.bucket_mb);
  EXPECT_FALSE(again.shuffle);
  EXPECT_EQ(again.inject->text, "slow:rank=0");
  EXPECT_EQ(again.out, "") << "a repeated run overwrites nothing";
  EXPECT_FALSE(again.json);
}

TEST_F(ConfigFile, LosesToTheCommandLine) {
  EXPECT_EQ(with("batch = 4\n", {"--batch", "8"}).batch, 8);
  EXPECT_EQ(with("global-batch = 4\n", {"--batch", "8"}).global_batch, 0);
  EXPECT_EQ(with("depth = 2\nwidth = 5\n", {"--hidden", "7"}).hidden,
            (std::vector<std::int64_t>{7}));
  EXPECT_EQ(with("hidden = [7, 8]\n").hidden, (std::vector<std::int64_t>{7, 8}));
}

TEST_F(ConfigFile, HoldsTextsWithAHashAndComments) {
  const Options first = parsed({"--data-dir", "a#b's"});
  EXPECT_EQ(with(fmt::format("{}\n", fmt::join(first.config, "\n"))).data_dir, "a#b's");
  EXPECT_EQ(with("# batch = 1\n  batch = 4  # of each rank\ndata-dir = 'x' # \"y\"\n").data_dir,
            "x");
  EXPECT_THAT(parsed({"--data-dir", "two\nlines"}).config,
              Contains("# data-dir: give it again, as no line can hold it"));
}

TEST_F(ConfigFile, HasLinesOfFlagsAlone) {
  for (const char* line :
       {"[optimizer]", "lr 0.5", "lr : 0.5", "lr", "lr =", "lr = \"0.5", "lr = '0.5' 6"}) {
    EXPECT_EQ(
        complaint_about(fmt::format("{}\n", line)),
        fmt::format(
            "train_mlp: --config: expected lines such as batch = 64, each flag once, got \"{}\"\n",
            line));
  }
  EXPECT_THAT(complaint_about("lr = 1\nbatch = 2\nlr = 2\n"), HasSubstr("got \"lr = 2\""));
  EXPECT_THAT(complaint_about("optimizer.lr = 0.5\n"), HasSubstr("unknown argument optimizer.lr"));
  EXPECT_EQ(complaint({"--config", ""}),
            "train_mlp: --config: expected a name, got \"\"; leave the flag out\n");
}

TEST_F(ConfigFile, IsCheckedLikeTheCommandLine) {
  EXPECT_THAT(complaint_about("bacth = 4\n"), HasSubstr("unknown argument bacth"));
  EXPECT_THAT(complaint_about("batch = none\n"), HasSubstr("--batch: expected a whole number"));
  EXPECT_THAT(complaint_about("out = \"runs/3\"\n"), HasSubstr("out"));
  EXPECT_EQ(complaint({"--config", "nowhere.toml"}),
            "train_mlp: --config: expected a file of flags, got nowhere.toml, which cannot be "
            "read\n");
}

}  // namespace
}  // namespace brigade::apps
