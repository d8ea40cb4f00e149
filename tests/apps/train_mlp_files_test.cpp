// The files that a run writes: where they cannot be, what is left when one fails, and which tests
// are in them.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using test::count;
using test::kTiny;
using test::Outcome;
using test::read;

class TrainMlpFiles : public ::testing::Test {
 protected:
  /// Runs in a directory of its own; 0 ranks: without mpirun.
  Outcome run(const std::string& flags, int ranks = 0,
              const std::string& program = BRIGADE_TRAIN_MLP) const {
    return test::run_program(program, flags, ranks, dir_.path());
  }

  /// Refused before the first step, in one line.
  void expect_refused(const std::string& flags, const std::string& complaint, int ranks = 0) const {
    const Outcome outcome = run(kTiny + flags, ranks);
    EXPECT_EQ(outcome.exit_code, 2) << flags;
    EXPECT_EQ(count(outcome.err, complaint), 1) << flags << ": " << outcome.err;
    EXPECT_EQ(count(outcome.err, "cannot write"), 1) << flags << ": " << outcome.err;
    EXPECT_THAT(outcome.out, Not(HasSubstr("samples/s"))) << flags;
  }

  TemporaryDirectory dir_;
};

TEST_F(TrainMlpFiles, AreWrittenAlsoWhenNobodyReadsTheOutput) {
  run(std::string(kTiny) + "--out new --save w.safetensors | :");
  EXPECT_TRUE(std::filesystem::exists(dir_ / "new" / "summary.json"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "w.safetensors"));
}

TEST_F(TrainMlpFiles, PlacesThatCannotBecomeFilesAreRefusedBeforeTraining) {
  constexpr const char* kNoFile = "it exists and is not a regular file";
  std::filesystem::create_directories(dir_ / "directory" / "summary.json");
  std::filesystem::create_directory(dir_ / "pipe");
  ASSERT_EQ(mkfifo((dir_ / "pipe" / "metrics.jsonl").c_str(), 0600), 0);
  expect_refused("--out directory", kNoFile);
  expect_refused("--out directory", kNoFile, 2);
  expect_refused("--out pipe", kNoFile);
  expect_refused("--save /dev/null", kNoFile);
  expect_refused("--save nowhere/w.safetensors", "No such file or directory");
  expect_refused("--save " + std::string(250, 'w'), "File name too long");
  expect_refused("--save " + std::string(300, 'w'), "File name too long");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "runs" / "1"));
  EXPECT_EQ(run(std::string(kTiny) + "--out new --save new/w.safetensors").exit_code, 0);
}

TEST_F(TrainMlpFiles, TwoInOnePlaceAreRefused) {
  constexpr const char* kTwo = "this run writes another file there";
  expect_refused("--out run --save ./run/summary.json", kTwo);
  expect_refused("--out run --save run/../run/metrics.jsonl", kTwo);
  expect_refused("--out run --trace --save run/timeline.html", kTwo);
  EXPECT_EQ(run(std::string(kTiny) + "--out run --save run/timeline.html").exit_code, 0);
}

TEST_F(TrainMlpFiles, OneThatFailsCostsNoOther) {
  // No file beyond 32768 blocks of 512 bytes (MPI has some of 4 MB); the weights take 18 MB.
  const Outcome outcome =
      run("--depth 1 --width 2100 --steps 2 --batch 1 --train-samples 2 --out run --save w", 0,
          "true; trap '' XFSZ; ulimit -f 32768; " BRIGADE_TRAIN_MLP);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(count(outcome.err, "cannot write w: File too large"), 1) << outcome.err;
  EXPECT_EQ(count(outcome.out, "wrote run/metrics.jsonl, run/summary.json"), 1) << outcome.out;
  EXPECT_TRUE(nlohmann::json::accept(read(dir_ / "run" / "summary.json")));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "w"));

  const Outcome both =
      run("--depth 1 --width 2100 --steps 2 --batch 1 --train-samples 2 --out run --save w --json "
          ">/dev/full 2>err #",
          0, "true; trap '' XFSZ; ulimit -f 32768; " BRIGADE_TRAIN_MLP);
  EXPECT_EQ(count(both.err, "cannot write w: File too large"), 1) << "the loss that counts";
}

TEST_F(TrainMlpFiles, ASummaryIsOfTheRunBesideIt) {
  EXPECT_EQ(run(std::string(kTiny) + "--out run").exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "run" / "summary.json"));
  EXPECT_NE(run(std::string(kTiny) + "--out run --lr 1e30").exit_code, 0) << "diverges";
  EXPECT_FALSE(std::filesystem::exists(dir_ / "run" / "summary.json"));
}

TEST_F(TrainMlpFiles, TimeLinesAreOfTheRunBesideThem) {
  ASSERT_EQ(run(kTiny + std::string("--trace --out run")).exit_code, 0);
  ASSERT_TRUE(std::filesystem::exists(dir_.path() / "run" / "timeline.html"));
  ASSERT_TRUE(std::filesystem::exists(dir_.path() / "run" / "trace.json.gz"));
  EXPECT_THAT(read(dir_.path() / "run" / "timeline.html"), HasSubstr("overlap, 1 rank<"));
  ASSERT_EQ(run(kTiny + std::string("--out run")).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(dir_.path() / "run" / "timeline.html"));
  EXPECT_FALSE(std::filesystem::exists(dir_.path() / "run" / "trace.json.gz"));
}

TEST_F(TrainMlpFiles, AConfigRepeatsItsRun) {
  const auto hash = [this](const std::string& flags) -> std::string {
    const Outcome outcome = run(flags + " --json", 2);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out)["params_hash"];
  };
  const std::string first = hash(
      "--depth 3 --width 8 --steps 6 --global-batch 16 --train-samples 64 --seed 7 "
      "--momentum 0.9 --lr 0.0123456789 --no-shuffle --reduce deterministic --out first");
  EXPECT_EQ(hash("--config first/config.toml --out second"), first);
  EXPECT_EQ(read(dir_ / "second" / "config.toml"), read(dir_ / "first" / "config.toml"));
  EXPECT_NE(hash("--config first/config.toml --seed 8"), first) << "a flag wins over the file";
}

TEST_F(TrainMlpFiles, AResultThatCannotBePrintedIsAnError) {
  const Outcome outcome = run(std::string(kTiny) + "--json >/dev/full 2>err #");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(count(outcome.err, "stdout: cannot write the result: No space left on device"), 1)
      << outcome.err;
  EXPECT_EQ(run("--help >/dev/full #").exit_code, 1);
}

TEST_F(TrainMlpFiles, AFlagMayBeAnyBytes) {
  const Outcome outcome = run(std::string(kTiny) + "--save $'w\xff.safetensors' --json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(nlohmann::json::accept(outcome.out));
}

TEST_F(TrainMlpFiles, MetricsHaveATestOfEverySecondEpochAndOfTheLast) {
  const Outcome outcome = run(
      "--hidden 8 --batch 4 --train-samples 16 --epochs 5 --eval-every 2 --log-every 4 --out run");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::ifstream metrics(dir_ / "run" / "metrics.jsonl");
  std::vector<double> logged;
  std::vector<double> tested;
  for (std::string line; std::getline(metrics, line);) {
    const auto json = nlohmann::json::parse(line);
    logged.push_back(json["epoch"]);
    if (json.contains("test_loss")) {
      tested.push_back(json["epoch"]);
    }
  }
  EXPECT_EQ(logged, (std::vector<double>{0.25, 1, 2, 3, 4, 5}));
  EXPECT_EQ(tested, (std::vector<double>{2, 4, 5}));
}

}  // namespace
}  // namespace brigade
