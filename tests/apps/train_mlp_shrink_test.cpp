// --on-failure shrink: a rank is lost, and the others go on.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/compare_weights.h"
#include "tests/support/environment.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using test::count;
using test::count_reports;
using test::Outcome;
using ::testing::HasSubstr;

constexpr double kSeconds = 20.0;

/// An epoch of 8 steps, the last of them smaller.
constexpr const char* kWork =
    "--hidden 16,8 --steps 20 --batch 8 --train-samples 185 --momentum 0.9 --threads 1 "
    "--log-every 1 --on-failure shrink --stall-warn 0 ";

class TrainMlpShrink : public ::testing::Test {
 protected:
  Outcome run(const std::string& flags, int ranks = 3) const {
    const test::EnvironmentVariable recovery("OMPI_MCA_orte_enable_recovery", "1");
    return test::run_program(BRIGADE_TRAIN_MLP, kWork + flags, ranks, dir_.path());
  }

  void expect_to_end_well(const Outcome& outcome, const std::string& line) const {
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(count(outcome.err, line), 1) << outcome.err;
    EXPECT_EQ(count_reports(outcome.err), 1) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("parameters equal on all ranks"));
    EXPECT_LT(outcome.seconds, kSeconds);
  }

  TemporaryDirectory dir_;
};

/// The flags of a way to train.
class ShrunkRun : public TrainMlpShrink, public ::testing::WithParamInterface<const char*> {};

TEST_P(ShrunkRun, GoesOnWithoutTheKilledRank) {
  const std::string way = GetParam();
  expect_to_end_well(run(way + " --inject kill:rank=1,step=12"),
                     "; 2 of 3 ranks go on (mpirun's 0, 2) from step 12, ");
}

INSTANTIATE_TEST_SUITE_P(
    Ways, ShrunkRun,
    ::testing::Values("--mode naive", "--mode flat --comm halving", "--mode per_param --comm tree",
                      "--mode overlap --optimizer adam --momentum 0", "--mode no_sync --accum 3",
                      "--reduce deterministic --comm-hook fp16", "--uneven pad --clip-norm 0.1",
                      "--check-finite --verify-every 1 --eval-every 1", "--prefetch on --trace",
                      "--checkpoint-every 3 --keep-global-batch"));

TEST_F(TrainMlpShrink, TheMetricsGoOnWhereRankZeroWasKilled) {
  expect_to_end_well(run("--inject kill:rank=0,step=7 --out run"),
                     "; 2 of 3 ranks go on (mpirun's 1, 2) from step 7, global batch 16 instead of "
                     "24, ");
  std::ifstream file(dir_ / "run" / "metrics.jsonl");
  std::vector<int> steps;
  for (std::string line; std::getline(file, line);) {
    steps.push_back(nlohmann::json::parse(line)["step"]);
  }
  std::vector<int> all(20);
  std::iota(all.begin(), all.end(), 1);
  EXPECT_EQ(steps, all);
}

TEST_F(TrainMlpShrink, AStoppedRankIsGivenUpAfterTheTimeout) {
  expect_to_end_well(run("--timeout 2 --inject stop:rank=0,step=7"),
                     "[rank 0] rank 0 does not answer for ");
}

TEST_F(TrainMlpShrink, ASpinningRankIsGivenUpAfterTheTimeout) {
  const Outcome outcome = run("--timeout 2 --inject spin:rank=2,step=7");
  EXPECT_THAT(outcome.err, HasSubstr("rank 2 has not reached bucket_0 (4.weight, 4.bias, 2.weight, "
                                     "2.bias, 0.weight, 0.bias) of step 7; it is in forward for "));
  EXPECT_THAT(outcome.err, HasSubstr("; 2 of 3 ranks go on (mpirun's 0, 1) from step 7"));
  EXPECT_THAT(outcome.out, HasSubstr("parameters equal on all ranks"));
  EXPECT_LT(outcome.seconds, kSeconds);
}

TEST_F(TrainMlpShrink, ALossInTheFirstStepAfterAResumeGoesOnFromThere) {
  ASSERT_EQ(run("--out first --checkpoint-every 10").exit_code, 0);
  const Outcome outcome = run("--out second --resume first --inject kill:rank=1,step=1");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(count(outcome.err, "continues after step 10 "), 1) << outcome.err;
  EXPECT_EQ(count(outcome.err, "2 of 3 ranks go on (mpirun's 0, 2) from step 11, "), 1);
}

TEST_F(TrainMlpShrink, OneRankGoesOnAlone) {
  expect_to_end_well(run("--inject kill:rank=0,step=20", 2), "; 1 of 2 ranks go on (mpirun's 1)");
}

// A step that was lost, or done twice, would show.
TEST_F(TrainMlpShrink, WithTheSameGlobalBatchTheWeightsAreThoseOfAnUndisturbedRun) {
  ASSERT_EQ(run("--save whole.safetensors").exit_code, 0);
  for (const char* rank : {"0", "1", "2"}) {
    expect_to_end_well(
        run(std::string(
                "--keep-global-batch --save shrunk.safetensors --inject kill:step=12,rank=") +
            rank),
        "from step 12, 2 micro-batches instead of 1, global batch 24 as before, ");
    EXPECT_LT(relative_l2(dir_ / "shrunk.safetensors", dir_ / "whole.safetensors"), 1e-6);
  }
}

TEST_F(TrainMlpShrink, ARunWithoutLossesEndsAsUsual) {
  const Outcome outcome = run("");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(count_reports(outcome.err), 0) << outcome.err;
}

TEST_F(TrainMlpShrink, AFaultOfTheTrainingEndsAllRanks) {
  const Outcome outcome = run("--inject nan:rank=1,step=3");
  EXPECT_EQ(count(outcome.err, "[rank 0] loss: expected a finite number, got nan in step 3"), 1)
      << outcome.err;
  EXPECT_EQ(count(outcome.err, "go on"), 0) << outcome.err;
  EXPECT_LT(outcome.seconds, kSeconds);
}

TEST_F(TrainMlpShrink, WhatCannotGoOnIsRefused) {
  const Outcome plain = test::run_program(BRIGADE_TRAIN_MLP, kWork, 2, dir_.path());
  EXPECT_EQ(plain.exit_code, 2);
  EXPECT_EQ(count(plain.err,
                  "[rank 0] --on-failure shrink: expected an mpirun that leaves the "
                  "other ranks alone when one ends, got its default; start it with "
                  "mpirun --enable-recovery"),
            1)
      << plain.err;
  for (const char* flags :
       {"--cross-step", "--optimizer-overlap", "--comm mpi", "--comm shared",
        "--comm-hook powersgd:rank=2", "--no-all-reduce", "--emulate-link 50,0.1"}) {
    EXPECT_THAT(run(flags, 0).err, HasSubstr("--on-failure shrink: expected ")) << flags;
  }
}

}  // namespace
}  // namespace brigade
