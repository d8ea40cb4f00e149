// Runs that are killed or told to stop, and the runs that continue them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using test::Outcome;
using test::read;
using ::testing::HasSubstr;

/// An epoch of 10 steps, the last of them smaller.
constexpr const char* kWork =
    "--hidden 16,8 --steps 24 --batch 8 --train-samples 155 --momentum 0.9 --threads 1 "
    "--log-every 1 ";

class TrainMlpCheckpoints : public ::testing::Test {
 protected:
  Outcome run(const std::string& flags, int ranks = 2) const {
    return test::run_program(BRIGADE_TRAIN_MLP, kWork + flags, ranks, dir_.path());
  }

  std::string hash_of(const std::string& directory) const {
    return nlohmann::json::parse(read(dir_ / directory / "summary.json"))["params_hash"];
  }

  std::vector<std::int64_t> metric_steps(const std::string& directory) const {
    std::ifstream file(dir_ / directory / "metrics.jsonl");
    std::vector<std::int64_t> steps;
    for (std::string line; std::getline(file, line);) {
      steps.push_back(nlohmann::json::parse(line)["step"]);
    }
    return steps;
  }

  TemporaryDirectory dir_;
};

/// The flags of a way to train.
class KilledRun : public TrainMlpCheckpoints, public ::testing::WithParamInterface<const char*> {};

TEST_P(KilledRun, ContinuesToTheBit) {
  const std::string way = GetParam();
  ASSERT_EQ(run(way + " --out whole").exit_code, 0);
  ASSERT_NE(run(way + " --out killed --checkpoint-every 5 --inject kill:step=19").exit_code, 0);
  const Outcome resumed = run(way + " --out killed --checkpoint-every 5 --resume latest");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("continues after step 1"));  // 10 or 15
  EXPECT_EQ(hash_of("killed"), hash_of("whole"));
  std::vector<std::int64_t> all(24);
  std::iota(all.begin(), all.end(), 1);
  EXPECT_EQ(metric_steps("killed"), all);
}

INSTANTIATE_TEST_SUITE_P(TrainMlpCheckpoints, KilledRun,
                         ::testing::Values("", "--mode naive", "--mode flat", "--mode per_param",
                                           "--mode no_sync --accum 2 --batch 4", "--cross-step",
                                           "--optimizer-overlap",
                                           "--optimizer adamw --weight-decay 0.01 --momentum 0",
                                           "--comm-hook bf16", "--comm-hook powersgd:rank=2",
                                           "--comm-hook topk:ratio=0.1", "--comm ring",
                                           "--reduce deterministic --uneven pad --prefetch on"));

TEST_F(TrainMlpCheckpoints, WithoutACheckpointTrainingBeginsAtTheBeginning) {
  run("--out whole");
  const Outcome outcome = run("--out new --resume latest");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("no checkpoint to continue from"));
  EXPECT_EQ(hash_of("new"), hash_of("whole"));
}

TEST_F(TrainMlpCheckpoints, AnotherRunCanContinueInItsOwnDirectory) {
  run("--out whole");
  run("--out first --checkpoint-every 4 --steps 9");
  EXPECT_EQ(run("--out second --resume first").exit_code, 0);
  EXPECT_EQ(run("--out third --resume first/checkpoints/step-000000004").exit_code, 0);
  EXPECT_EQ(hash_of("second"), hash_of("whole"));
  EXPECT_EQ(hash_of("third"), hash_of("whole"));
}

TEST_F(TrainMlpCheckpoints, MoreRanksContinueWithTheSameGlobalBatch) {
  run("--batch 12 --out first --checkpoint-every 4 --steps 9", 2);
  EXPECT_EQ(run("--batch 8 --out first --resume latest", 3).exit_code, 0);
  const Outcome other = run("--batch 12 --out first --resume latest", 3);
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err,
              HasSubstr("expected the checkpoint of a run with 'global batch 36', got one "
                        "with 'global batch 24'"));
}

TEST_F(TrainMlpCheckpoints, WeightsThatAreNotFiniteNeverReplaceAGoodCheckpoint) {
  const Outcome spoilt = run("--log-every 24 --out r --checkpoint-every 4 --inject nan:step=7");
  EXPECT_EQ(spoilt.exit_code, 1);
  EXPECT_THAT(spoilt.err, HasSubstr("checkpoint: expected finite weights after step 8, got NaN or "
                                    "inf in '0.weight': training has diverged"));
  const Outcome resumed = run("--out r --checkpoint-every 4 --resume latest");
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("continues after step 4"));
}

TEST_F(TrainMlpCheckpoints, MomentumIsPartOfWhatARunIs) {
  run("--out first --checkpoint-every 4 --steps 9");
  EXPECT_THAT(run("--out first --resume latest --momentum 0").err,
              HasSubstr("expected the checkpoint of a run with 'optimizer sgd', got one with "
                        "'optimizer sgd with momentum'"));
}

TEST_F(TrainMlpCheckpoints, FlagsThatCannotWorkAreRefused) {
  EXPECT_THAT(run("--resume latest").err, HasSubstr("--resume latest: expected --out DIR"));
  EXPECT_THAT(run("--resume nowhere").err,
              HasSubstr("nowhere/checkpoints/step-000000000 or a later one, got none"));
  EXPECT_THAT(run("--checkpoint-every 0").err, HasSubstr("--checkpoint-every"));
  EXPECT_THAT(run("--checkpoint-every 5 --no-all-reduce").err,
              HasSubstr("expected no checkpoints"));
  run("--out first --checkpoint-every 4 --steps 9");
  EXPECT_THAT(run("--out first --resume latest --steps 8").err,
              HasSubstr("--resume: expected more than the 8 steps that are done, got 8"));
}

TEST_F(TrainMlpCheckpoints, ASignalToOneRankSavesAndEndsTheJob) {
  // Long enough to be interrupted: rank 1 gets the signal once there is a line of metrics.
  std::ofstream(dir_ / "run.sh") << "if [ $OMPI_COMM_WORLD_RANK = 1 ]; then\n"
                                    "  (while [ ! -s long/metrics.jsonl ]; do sleep 0.05; done\n"
                                    "   kill -TERM $$) &\n"
                                    "fi\n"
                                 << "exec " << BRIGADE_TRAIN_MLP << ' ' << kWork
                                 << "--steps 1000000 --out long --checkpoint-every 1000000\n";
  const Outcome outcome = test::run_program("sh", "run.sh", 2, dir_.path());
  EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("[rank 0] a signal has ended the training after step"));
  EXPECT_EQ(run("--steps 1000000 --out long --resume latest --inject kill:step=1").exit_code, 137);
  EXPECT_THAT(read(dir_ / "err"), HasSubstr("continues after step"));
}

TEST_F(TrainMlpCheckpoints, ASignalSavesAlsoWhereNobodyReadsTheOutput) {
  // As mpirun does when it ends a job. The pipe is full after some hundred lines.
  std::ofstream(dir_ / "run.sh")
      << "mkfifo pipe\nsleep 60 <pipe &\nreader=$!\n"
      << BRIGADE_TRAIN_MLP << ' ' << kWork
      << "--steps 1000000 --out quiet --checkpoint-every 1000000 >pipe &\n"
         "until [ $(wc -l <quiet/metrics.jsonl) -gt 100 ] 2>/dev/null &&\n"
         "  [ $(wc -l <quiet/metrics.jsonl) = $(sleep 1; wc -l <quiet/metrics.jsonl) ]\n"
         "do sleep 0.05; done\n"
         "kill -TERM $!\nwait $!\ncode=$?\nkill $reader\nexit $code\n";
  const Outcome outcome = test::run_program("sh", "run.sh", 0, dir_.path());
  EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
  EXPECT_LT(outcome.seconds, 50.0) << "the reader leaves after 60 s";
  EXPECT_FALSE(std::filesystem::is_empty(dir_ / "quiet" / "checkpoints")) << outcome.err;
}

TEST_F(TrainMlpCheckpoints, ARefusedRunChangesNothingOfTheOneBefore) {
  ASSERT_EQ(run("--out first --checkpoint-every 4", 1).exit_code, 0);
  const std::string config = read(dir_ / "first" / "config.toml");
  EXPECT_EQ(run("--out first --resume latest --seed 9 --steps 30", 1).exit_code, 2);
  EXPECT_EQ(run("--out first --seed 9", 1).exit_code, 2) << "its checkpoints are another run's";
  EXPECT_EQ(read(dir_ / "first" / "config.toml"), config);
}

TEST_F(TrainMlpCheckpoints, ManySignalsDuringMatrixProductsHurtNothing) {
  // Layers wide enough that nearly every signal arrives inside a product; see SignalStack.
  std::ofstream(dir_ / "run.sh")
      << BRIGADE_TRAIN_MLP
      << " --threads 1 --steps 1000000 --checkpoint-every 1000000 --out r &\n"
         "while [ ! -s r/metrics.jsonl ]; do sleep 0.05; done\n"
         "for i in $(seq 100); do kill -USR1 $!; sleep 0.01; done\n"
         "kill -TERM $!\n"
         "wait $!\n";
  const Outcome outcome = test::run_program("sh", "run.sh", 0, dir_.path());
  EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
}

}  // namespace
}  // namespace brigade
