// Runs the program under mpirun: --dtype and --matmul-precision.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

class TrainMlpPrecision : public ::testing::Test {
 protected:
  test::Outcome run(const std::string& flags) const {
    const test::Outcome outcome = test::run_program(
        BRIGADE_TRAIN_MLP,
        "--hidden 64 --epochs 4 --batch 64 --train-samples 512 --threads 1 --json " + flags, 2,
        dir_.path());
    EXPECT_EQ(outcome.exit_code, 0) << flags << '\n' << outcome.err;
    return outcome;
  }
  nlohmann::json trained(const std::string& flags) const {
    const test::Outcome outcome = run(flags);
    return outcome.exit_code == 0 ? nlohmann::json::parse(outcome.out) : nlohmann::json();
  }

  TemporaryDirectory dir_;
};

TEST_F(TrainMlpPrecision, Bf16LearnsAlmostAsF32) {
  const nlohmann::json full = trained("");
  const nlohmann::json mixed = trained("--dtype bf16");
  EXPECT_NE(mixed["params_hash"], full["params_hash"]);
  const double loss = full["test_loss"];
  EXPECT_NEAR(mixed["test_loss"].get<double>(), loss, 0.02 * loss);
}

TEST_F(TrainMlpPrecision, Bf16EndsWithTheSameBitsInEveryMode) {
  const nlohmann::json overlap = trained("--dtype bf16");
  for (const std::string mode : {"naive", "flat", "per_param"}) {
    EXPECT_EQ(trained("--dtype bf16 --mode " + mode)["params_hash"], overlap["params_hash"])
        << mode;
  }
}

/// The screen says what the CPU makes of the word. Where bf16 is not faster, nothing changes.
TEST_F(TrainMlpPrecision, MatmulPrecisionSaysWhatBecomesOfF32Products) {
  const auto full = trained("--device cpu");
  const double loss = full["test_loss"];
  for (const std::string precision : {"highest", "high", "medium"}) {
    const test::Outcome outcome = run("--device cpu --matmul-precision " + precision);
    const auto result = nlohmann::json::parse(outcome.out);
    EXPECT_EQ(test::count(outcome.err, ", f32 products "), precision == "highest" ? 0 : 1);
    const bool rounds = test::count(outcome.err, "bf16 factors") == 1 ||
                        test::count(outcome.err, "as three of bf16") == 1;
    EXPECT_EQ(result["params_hash"] != full["params_hash"], rounds) << precision;
    EXPECT_NEAR(result["test_loss"].get<double>(), loss,
                (precision == "high" ? 1e-4 : 0.02) * loss);
  }
}

}  // namespace
}  // namespace brigade
