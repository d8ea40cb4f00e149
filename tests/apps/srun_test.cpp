// What srun sets in the environment of its processes, without Slurm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/environment.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using test::EnvironmentVariable;

class Srun : public testing::Test {
 protected:
  test::Outcome run(const std::string& flags) const {
    return test::run_program(BRIGADE_TRAIN_MLP, flags, 0, dir_.path());
  }

  TemporaryDirectory dir_;
  EnvironmentVariable tasks_{"SLURM_STEP_NUM_TASKS", "2"};
};

TEST_F(Srun, WithoutPmixEndsWithOneLine) {
  for (const char* process : {"0", "1"}) {
    const EnvironmentVariable number("SLURM_PROCID", process);
    const test::Outcome outcome = run("--steps 1");
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.err, process == std::string("0") ? "srun: expected --mpi=pmix, got processes "
                                                         "that do not know each other\n"
                                                       : "");
  }
}

TEST_F(Srun, WithPmixHelpsOnRank0) {
  for (const char* rank : {"0", "1"}) {
    const EnvironmentVariable number("PMIX_RANK", rank);
    const test::Outcome outcome = run("--help");
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.out.empty(), rank == std::string("1"));
  }
}

TEST_F(Srun, OfOneProcessNeedsNoPmix) {
  const EnvironmentVariable one("SLURM_STEP_NUM_TASKS", "1");
  const test::Outcome outcome = run("--steps 1 --hidden 4 --batch 2 --threads 1");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

}  // namespace
}  // namespace brigade
