// Runs the program under mpirun: --replay.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using testing::HasSubstr;

class TrainMlpReplay : public ::testing::Test {
 protected:
  test::Outcome run(const std::string& flags, int ranks = 2) const {
    return test::run_program(BRIGADE_TRAIN_MLP,
                             "--hidden 32,24 --threads 1 --json --batch 16 --train-samples 607 "
                             "--epochs 3 " +
                                 flags,
                             ranks, dir_.path());
  }
  nlohmann::json trained(const std::string& flags, int ranks = 2) const {
    const test::Outcome outcome = run(flags, ranks);
    EXPECT_EQ(outcome.exit_code, 0) << flags << '\n' << outcome.err;
    return outcome.exit_code == 0 ? nlohmann::json::parse(outcome.out) : nlohmann::json();
  }

  TemporaryDirectory dir_;
};

TEST_F(TrainMlpReplay, EndsWithTheSameBitsAsWithout) {
  // 607 samples in batches of 32: every epoch ends with a step in which one rank has 16 samples and
  // the other 15. It is replayed on neither.
  for (const std::string flags :
       {"--momentum 0.9", "--mode naive", "--mode per_param --prefetch on",
        "--mode no_sync --accum 3", "--accum 2 --mode flat", "--optimizer adam",
        "--optimizer adamw --accum 2 --clip-norm 1", "--optimizer adamw --optimizer-overlap",
        "--dtype bf16", "--loss cross_entropy --clip-norm 1", "--sync never",
        "--comm-hook powersgd:rank=2"}) {
    SCOPED_TRACE(flags);
    const nlohmann::json dynamic = trained(flags);
    const nlohmann::json replayed = trained(flags + std::string(" --replay"));
    EXPECT_EQ(replayed["params_hash"], dynamic["params_hash"]);
    EXPECT_EQ(replayed["loss_last"], dynamic["loss_last"]);
    EXPECT_EQ(replayed["collectives_per_step"], dynamic["collectives_per_step"]);
    EXPECT_EQ(replayed["config"]["replay"], true);
    EXPECT_EQ(dynamic["replayed_micro_batches"], 0);
    EXPECT_GT(replayed["replayed_micro_batches"], 10);
  }
}

TEST_F(TrainMlpReplay, RepeatsAFusedUpdate) {
  for (const std::string flags : {"", "--weight-decay 0.1", "--dtype bf16", "--sync never"}) {
    SCOPED_TRACE(flags);
    const nlohmann::json dynamic = trained("--fused-update on " + flags, 1);
    const nlohmann::json replayed = trained("--fused-update on --replay " + flags, 1);
    EXPECT_EQ(replayed["params_hash"], dynamic["params_hash"]);
    EXPECT_GT(replayed["replayed_micro_batches"], 10);
    const nlohmann::json stepped = trained("--fused-update off " + flags, 1);
    EXPECT_EQ(dynamic["config"]["fused_update"], true);
    EXPECT_EQ(stepped["config"]["fused_update"], false);
    EXPECT_NEAR(dynamic["loss_last"].get<double>(), stepped["loss_last"].get<double>(), 1e-5);
  }
}

TEST_F(TrainMlpReplay, AFusedUpdateNeedsNoGradientsInAnyModeOrCarrier) {
  const nlohmann::json expected = trained("--fused-update on", 1);
  for (const std::string flags :
       {"--mode naive --comm shared", "--mode naive --comm ring --reduce deterministic",
        "--mode flat --comm hierarchical", "--mode per_param --comm shared"}) {
    EXPECT_EQ(trained("--fused-update on " + flags, 1)["params_hash"], expected["params_hash"])
        << flags;
  }
}

TEST_F(TrainMlpReplay, OneRankFusesItsUpdateWhereverThatIsPossible) {
  const nlohmann::json fused = trained("--fused-update on", 1);
  const nlohmann::json usual = trained("", 1);
  EXPECT_EQ(usual["config"]["fused_update"], true);
  EXPECT_EQ(usual["params_hash"], fused["params_hash"]);
  for (const auto& [flags, ranks] : {std::pair("", 2), std::pair("--momentum 0.9", 1),
                                     std::pair("--accum 2", 1), std::pair("--cross-step", 1)}) {
    EXPECT_EQ(trained(flags, ranks)["config"]["fused_update"], false) << flags << ' ' << ranks;
  }
}

TEST_F(TrainMlpReplay, AFusedUpdateIsForOneRank) {
  const test::Outcome outcome = run("--fused-update on");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--fused-update on: expected one rank, got 2"));
}

TEST_F(TrainMlpReplay, RefusesWhatAReplayWouldLeaveOut) {
  for (const std::string flags : {"--cross-step", "--find-unused", "--static-graph", "--trace",
                                  "--profile", "--inject nan:rank=1", "--inject bit_flip"}) {
    const test::Outcome outcome = run(flags + " --replay");
    EXPECT_EQ(outcome.exit_code, 2) << flags;
    EXPECT_THAT(outcome.err,
                HasSubstr("--replay: expected no " + flags.substr(0, flags.find(' '))));
  }
}

TEST_F(TrainMlpReplay, ACudaGraphNeedsAGpu) {
  const test::Outcome outcome = run("--device cpu --cuda-graph");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--cuda-graph: expected a GPU, but this run is on cpu"));
}

}  // namespace
}  // namespace brigade
