// Runs the program under mpirun: which bits it ends with when updates are in flight, and when sums
// are in rank order.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using test::Outcome;
using test::read;
using testing::HasSubstr;

class TrainMlpInFlight : public ::testing::Test {
 protected:
  Outcome run(const std::string& flags, int ranks) const {
    return test::run_program(
        BRIGADE_TRAIN_MLP,
        "--hidden 64,48 --batch 16 --steps 9 --threads 1 --seed 3 --json " + flags, ranks,
        dir_.path());
  }

  nlohmann::json summary(const std::string& flags, int ranks) const {
    const Outcome outcome = run(flags, ranks);
    EXPECT_EQ(outcome.exit_code, 0) << flags << '\n' << outcome.err;
    return outcome.exit_code == 0 ? nlohmann::json::parse(outcome.out) : nlohmann::json();
  }

  TemporaryDirectory dir_;
};

TEST_F(TrainMlpInFlight, EndsWithTheBitsOfPlainSteps) {
  for (const std::string work :
       {"--momentum 0.9 ", "--optimizer adam --accum 2 --mode no_sync ", "--mode per_param "}) {
    const std::string flags = work + "--reduce deterministic ";
    const nlohmann::json plain = summary(flags + "--save plain.safetensors", 3);
    for (const std::string in_flight :
         {"--optimizer-overlap ", "--cross-step ", "--cross-step --comm ring --bucket-mb 0.01 "}) {
      const nlohmann::json other = summary(flags + in_flight + "--save other.safetensors", 3);
      EXPECT_EQ(other["params_hash"], plain["params_hash"]) << flags << in_flight;
      EXPECT_EQ(other["loss_last"], plain["loss_last"]) << flags << in_flight;
      EXPECT_EQ(other["params_equal"], true);
      EXPECT_TRUE(read(dir_.path() / "other.safetensors") ==
                  read(dir_.path() / "plain.safetensors"))
          << flags << in_flight;
    }
  }
}

TEST_F(TrainMlpInFlight, EndsWithTheBitsOfPlainStepsWhereShardsAreUneven) {
  // 39 and 2 samples are left for the last step: two ranks have none then.
  for (const std::string samples : {"103", "66"}) {
    const std::string flags =
        "--train-samples " + samples + " --uneven join --reduce deterministic ";
    // Over a slow link updates are still to come when a rank without samples begins its backward.
    EXPECT_EQ(summary(flags + "--cross-step --emulate-link 2000,1", 4)["params_hash"],
              summary(flags, 4)["params_hash"]);
  }
}

TEST_F(TrainMlpInFlight, AShardedOptimizerEndsWithTheBitsOfAWholeOne) {
  for (const std::string work :
       {"--momentum 0.9 ", "--optimizer adamw --accum 2 --mode no_sync ", "--clip-norm 0.1 ",
        "--train-samples 103 --uneven join --optimizer adam --check-finite "}) {
    const std::string flags = work + "--reduce deterministic ";
    const nlohmann::json whole = summary(flags, 3);
    for (const std::string comm : {"", "--comm ring ", "--comm mpi --emulate-link 2000,1 "}) {
      const nlohmann::json sharded = summary(flags + comm + "--shard-optimizer", 3);
      EXPECT_EQ(sharded["params_hash"], whole["params_hash"]) << flags << comm;
      EXPECT_EQ(sharded["loss_last"], whole["loss_last"]) << flags << comm;
      EXPECT_EQ(sharded["params_equal"], true);
    }
  }
}

TEST_F(TrainMlpInFlight, AShardedOptimizerContinuesFromACheckpoint) {
  const std::string flags = "--optimizer adam --reduce deterministic --global-batch 48 ";
  const std::string whole = summary(flags, 2)["params_hash"];
  summary(flags + "--out two --steps 5 --checkpoint-every 4 --shard-optimizer", 2);
  EXPECT_EQ(summary(flags + "--out two --resume latest --shard-optimizer", 2)["params_hash"],
            whole);
}

TEST_F(TrainMlpInFlight, ChosenBucketsChangeNoBit) {
  const std::string flags = "--steps 12 --reduce deterministic --emulate-link 2000,1 ";
  const nlohmann::json fixed = summary(flags + "--bucket-mb 0", 2);
  const nlohmann::json chosen = summary(flags + "--bucket-mb auto", 2);
  EXPECT_EQ(chosen["params_hash"], fixed["params_hash"]);
  EXPECT_EQ(fixed["collectives_per_step"], 6.0);
  EXPECT_EQ(chosen["collectives_per_step"], chosen["buckets"].size());
  EXPECT_LE(chosen["buckets"].size(), 2) << "a link with a long latency";
  const Outcome outcome = test::run_program(BRIGADE_TRAIN_MLP,
                                            "--hidden 16,16 --batch 4 --steps 8 --threads 1 "
                                            "--bucket-mb auto --emulate-link 2000,1 --out c",
                                            2, dir_.path());
  EXPECT_EQ(test::count(outcome.out, "buckets chosen after step 5: "), 1) << outcome.out;
}

TEST_F(TrainMlpInFlight, AFailureIsStillALine) {
  for (const std::string in_flight : {"--optimizer-overlap ", "--cross-step "}) {
    const Outcome outcome = run(in_flight + "--log-every 1 --inject nan:rank=1,step=5", 2);
    EXPECT_EQ(outcome.exit_code, 1) << "not a crash of the thread that updates";
    EXPECT_THAT(outcome.err, HasSubstr("] loss: expected a finite number, got nan"));
  }
}

TEST_F(TrainMlpInFlight, WorksWithHooksThatTakeWholeBuckets) {
  EXPECT_EQ(summary("--comm-hook bf16 --cross-step", 2)["params_equal"], true);
}

TEST(TrainMlpDeterministic, EndsWithTheSameBitsInEveryModeAndBucketSize) {
  const TemporaryDirectory directory;
  std::string expected;
  // Three ranks, and MPI's own sum: there the order of additions depends on the bucket.
  for (const std::string how : {"--mode naive", "--mode flat", "--mode per_param",
                                "--mode overlap --bucket-mb 0.02", "--mode overlap --comm ring"}) {
    const Outcome outcome = test::run_program(
        BRIGADE_TRAIN_MLP,
        "--hidden 64,48 --batch 16 --steps 9 --threads 1 --json --reduce deterministic " +
            std::string(how.find("--comm") == std::string::npos ? "--comm mpi " : "") + how,
        3, directory.path());
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const std::string hash = nlohmann::json::parse(outcome.out)["params_hash"];
    expected = expected.empty() ? hash : expected;
    EXPECT_EQ(hash, expected) << how;
  }
}

}  // namespace
}  // namespace brigade
