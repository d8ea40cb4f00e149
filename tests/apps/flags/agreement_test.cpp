// What all ranks must have alike, flag by flag.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "apps/flags/options.h"

namespace brigade::apps {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

using Flags = std::vector<std::string>;

Parsed<Options> parse(const Flags& flags, Program program) {
  std::vector<const char*> argv{"program"};
  for (const std::string& flag : flags) {
    argv.push_back(flag.c_str());
  }
  return parse_options(static_cast<int>(argv.size()), argv.data(), program);
}

std::vector<std::string> agreement(const Flags& flags, Program program) {
  const Parsed<Options> result = parse(flags, program);
  EXPECT_FALSE(result.exit.has_value()) << result.exit.value_or(EarlyExit{}).text;
  return result.options.agreement();
}

/// One flag and a value. `beside`: flags that both sides have, where this one needs them.
struct Row {
  std::string flag;
  std::string value = {};
  Flags beside = {};
};

const std::vector<Row> kAlike{{"--mode", "flat"},
                              {"--accum", "2"},
                              {"--bucket-mb", "4"},
                              {"--reduce", "deterministic"},
                              {"--comm-hook", "fp16"},
                              {"--init-sync", "broadcast"},
                              {"--no-all-reduce"},
                              {"--optimizer-overlap"},
                              {"--cross-step"},
                              {"--shard-optimizer"},
                              {"--find-unused"},
                              {"--data", "fashion-mnist"},
                              {"--train-samples", "8"},
                              {"--no-shuffle"},
                              {"--uneven", "pad"},
                              {"--batch", "4"},
                              {"--epochs", "3"},
                              {"--steps", "3"},
                              {"--hidden", "512"},
                              {"--depth", "2", {"--depth=3", "--width=512"}},
                              {"--width", "16", {"--depth=1", "--width=512"}},
                              {"--global-batch", "64"},
                              {"--verify-every", "10"},
                              {"--check-finite"},
                              {"--check-reduce"},
                              {"--no-bias"},
                              {"--dtype", "bf16"},
                              {"--loss", "cross_entropy"},
                              {"--optimizer", "adam"},
                              {"--lr", "0.2"},
                              {"--schedule", "cosine"},
                              {"--lr-warmup", "3"},
                              {"--momentum", "0.9"},
                              {"--nesterov", {}, {"--momentum=0.9"}},
                              {"--weight-decay", "0.1"},
                              {"--clip-norm", "1"},
                              {"--seed", "1"},
                              {"--device", "cpu"},
                              {"--comm", "ring"},
                              {"--matmul-precision", "high"},
                              {"--low-memory"},
                              {"--emulate-link", "50,1"},
                              {"--inject", "slow"},
                              {"--log-every", "7"},
                              {"--eval-every", "2"},
                              {"--warmup", "2"},
                              {"--stall-warn", "20"},
                              {"--timeout", "20"},
                              {"--on-failure", "shrink"},
                              {"--keep-global-batch", {}, {"--on-failure=shrink"}},
                              {"--checkpoint-every", "5"},
                              {"--keep", "3"},
                              {"--trace"},
                              {"--trace-steps", "2"}};

const std::vector<Row> kAlikeInComparison{{"--modes", "naive,overlap"},
                                          {"--rounds", "2"},
                                          {"--model", "gpt"},
                                          {"--layers", "2", {"--model=gpt"}},
                                          {"--heads", "2", {"--model=gpt"}},
                                          {"--context", "16", {"--model=gpt"}}};

/// What each rank may have otherwise: names of files, which hosts may keep in other places (what is
/// in them is compared), what only rank 0 does, and how a rank uses its own cores.
const std::set<std::string> kFree{"--data-dir", "--init",     "--save",   "--out",
                                  "--config",   "--color",    "--json",   "--threads",
                                  "--prefetch", "--help-all", "--resume", "--graph"};
/// Likewise, of a GPT.
const std::set<std::string> kFreeInComparison{"--text", "--tokenizer"};

void expect_alike(const std::vector<Row>& rows, Program program) {
  for (const Row& row : rows) {
    const std::vector<std::string> usual = agreement(row.beside, program);
    Flags flags = row.beside;
    flags.push_back(row.value.empty() ? row.flag : row.flag + "=" + row.value);
    std::vector<std::string> changed;
    for (const std::string& line : agreement(flags, program)) {
      if (std::find(usual.begin(), usual.end(), line) == usual.end()) {
        changed.push_back(line);
      }
    }
    EXPECT_THAT(changed, ElementsAre(StartsWith(row.flag.substr(2) + " = "))) << row.flag;
  }
}

TEST(Agreement, EveryFlagThatTheOthersDependOnIsALineOfItsOwn) {
  expect_alike(kAlike, Program::train_mlp);
  expect_alike(kAlikeInComparison, Program::compare_modes);
}

/// Those that --help-all lists, but for --help and --version.
std::set<std::string> flags_of(Program program) {
  std::istringstream lines(parse({"--help-all"}, program).exit.value().text);
  std::set<std::string> flags;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("  --", 0) == 0) {
      flags.insert(line.substr(2, line.find(' ', 2) - 2));
    }
  }
  flags.erase("--version");
  return flags;
}

TEST(Agreement, EveryFlagMustBeAlikeOrIsFree) {
  std::set<std::string> decided = kFree;
  for (const Row& row : kAlike) {
    decided.insert(row.flag);
  }
  EXPECT_EQ(flags_of(Program::train_mlp), decided);
  for (const Row& row : kAlikeInComparison) {
    decided.insert(row.flag);
  }
  for (const std::string& flag : flags_of(Program::compare_modes)) {
    EXPECT_EQ(decided.count(flag) + kFreeInComparison.count(flag), 1U) << flag;
  }
}

TEST(Agreement, FlagsThatWereNotGivenAreComments) {
  const std::vector<std::string> usual = agreement({}, Program::train_mlp);
  EXPECT_THAT(usual, testing::Each(StartsWith("# ")));
  EXPECT_EQ(usual, agreement({"--data-dir=elsewhere", "--threads=1"}, Program::train_mlp));
  EXPECT_EQ(usual.size(), agreement({"--batch=4"}, Program::train_mlp).size())
      << "a line for every flag, so that ranks compare the same ones";
}

}  // namespace
}  // namespace brigade::apps
