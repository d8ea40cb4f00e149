// scripts/cluster/train.sbatch, as it is, on a pretend Slurm cluster.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "tests/slurm/slurm_lab.h"

namespace brigade {
namespace {

using test::kTiny;
using test::Outcome;
using testing::ContainsRegex;
using testing::HasSubstr;

class SlurmJobs : public test::SlurmLab {
 protected:
  /// A training of 150 steps that can be compared to the bit. `slow` makes it last a minute.
  static constexpr const char* kWork =
      "--hidden 8,8 --batch 4 --train-samples 64 --eval-every 0 --steps 150 --reduce deterministic";
  static constexpr const char* kSlow = "--inject slow:ms=400";

  std::string uninterrupted() const {
    const Outcome outcome = srun("--mpi=pmix", kWork);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return test::hash_in(outcome.out);
  }

  bool has_checkpoint(const std::string& job) const {
    return std::filesystem::exists(dir_ / "runs" / ("slurm-" + job) / "checkpoints");
  }

  bool has_restarted(const std::string& job) const { return field(job, "Restarts") != "0"; }

  /// The job ends well after a restart, with the weights of one that nothing has interrupted.
  void expect_the_same_end(const std::string& job) const {
    set_more_flags("");
    EXPECT_EQ(end_of(job), "COMPLETED") << log(job);
    EXPECT_THAT(log(job), ContainsRegex("\\[rank 0\\] checkpoint: continues after step [1-9]"));
    EXPECT_NE(test::hash_in(log(job)), "") << log(job);
    EXPECT_EQ(test::hash_in(log(job)), uninterrupted());
  }
};

TEST_F(SlurmJobs, ChooseTheHierarchicalAllReduceOnThreeNodesOfTwoRanks) {
  const std::string job = submit("", kTiny);
  EXPECT_EQ(end_of(job), "COMPLETED");
  EXPECT_THAT(log(job), HasSubstr("6 on 3 hosts"));
  EXPECT_THAT(log(job), HasSubstr("hierarchical 3 x 2: ring between nodes"));
  EXPECT_NE(test::hash_in(log(job)), "") << log(job);
}

TEST_F(SlurmJobs, ContinueAfterANodeHasDied) {
  set_more_flags(kSlow);
  const std::string job = submit("", kWork + std::string(" --checkpoint-every 4"));
  ASSERT_TRUE(await(job, [&] { return has_checkpoint(job); })) << log(job);
  ASSERT_EQ(lab("kill 2").exit_code, 0);
  ASSERT_TRUE(await(job, [&] { return has_restarted(job); })) << log(job);
  EXPECT_THAT(log(job), HasSubstr("DUE TO NODE FAILURE"));
  set_more_flags("");
  ASSERT_EQ(lab("boot 2").exit_code, 0);
  expect_the_same_end(job);
}

// Slurm looks at time limits every 30 s and may warn 60 s early: here within 30 s of the limit's
// change. Not before the first step, because in MPI_Init a process ends at SIGTERM without a word.
// The recipe writes no checkpoint in the first minute but for the warning.
TEST_F(SlurmJobs, ContinueAfterTheTimeLimit) {
  set_more_flags(kSlow);
  const std::string job = submit("", kWork + std::string(" --log-every 2"));
  ASSERT_TRUE(await(job, [&] { return test::count(log(job), "ms/step") > 0; })) << log(job);
  EXPECT_EQ(lab("run scontrol update JobId=" + job + " TimeLimit=2").exit_code, 0);
  ASSERT_TRUE(await(job, [&] { return has_restarted(job); })) << log(job);
  EXPECT_THAT(log(job), HasSubstr("a signal has ended the training after step"));
  EXPECT_EQ(lab("run scontrol update JobId=" + job + " TimeLimit=60").exit_code, 0);
  expect_the_same_end(job);
}

TEST_F(SlurmJobs, ThatWantTooManyNodesAreRefusedInOneLine) {
  const Outcome outcome =
      lab("run sbatch --nodes=4 " BRIGADE_SOURCE_DIR "/scripts/cluster/train.sbatch");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("Node count specification invalid"));
  EXPECT_EQ(test::count(outcome.err, "\n"), 1) << outcome.err;
}

TEST_F(SlurmJobs, NameTheRankThatHasNoData) {
  std::filesystem::copy(BRIGADE_SOURCE_DIR "/tests/data/tiny", dir_ / "data");
  ASSERT_EQ(lab("on 2 mount -t tmpfs none " + (dir_ / "data").string()).exit_code, 0);
  const std::string job =
      submit("", "--data fashion-mnist --steps 5 --data-dir " + (dir_ / "data").string());
  EXPECT_EQ(end_of(job), "FAILED");
  EXPECT_EQ(field(job, "ExitCode"), "2:0");
  EXPECT_EQ(field(job, "Restarts"), "0");
  EXPECT_THAT(log(job), ContainsRegex("\\[rank [23]\\] .*" + (dir_ / "data").string()));
  EXPECT_EQ(test::count_reports(log(job)), 1) << log(job);
}

TEST_F(SlurmJobs, WithoutPmixEndInOneLine) {
  const Outcome outcome = srun("", kTiny);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(test::count(outcome.err, "srun: expected --mpi=pmix, got processes that"), 1);
  EXPECT_EQ(outcome.out, "");
}

TEST_F(SlurmJobs, NeedALabWhoseLinksHaveARate) {
  const test::EnvironmentVariable other("SLURMLAB", "neverup" + std::to_string(::getpid()));
  const Outcome outcome = lab("up --nodes 1 --rate banana");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "slurmlab: rate: expected none or a rate like 500mbit, got 'banana'\n");
}

TEST_F(SlurmJobs, TellOfAWrongFlagOnce) {
  const Outcome outcome = srun("--mpi=pmix", "--stepz 3");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(test::count(outcome.err, "unknown flag --stepz"), 1) << outcome.err;
}

// Here without checkpoints, so that nothing but LastWords holds SIGTERM back.
TEST_F(SlurmJobs, NameTheLostRankBeforeKillOnBadExitEndsAll) {
  for (const std::string lost : {"0", "2"}) {
    const Outcome outcome = srun("--mpi=pmix --kill-on-bad-exit=1",
                                 "--hidden 8,8 --batch 4 --steps 3000 --inject kill:rank=" + lost);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_THAT(outcome.err, ContainsRegex("rank " + lost + " (is gone|has ended without a word)"));
  }
}

}  // namespace
}  // namespace brigade
