// Runs compare_modes as a user would.
#include <gmock/gmock.h>

#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using test::count;
using test::Outcome;
using testing::HasSubstr;

class CompareModes : public testing::Test {
 protected:
  Outcome run(const std::string& flags, int ranks) const {
    return test::run_program(BRIGADE_COMPARE_MODES, flags, ranks, dir_.path());
  }

  TemporaryDirectory dir_;
};

constexpr const char* kSmall =
    "--hidden 64,64 --batch 8 --bucket-mb 0.05 --rounds 2 --steps 4 --threads 1 --out run ";

TEST_F(CompareModes, PrintsOneTableAndWritesTheSameNumbers) {
  const Outcome outcome = run(kSmall + std::string("--accum 4"), 2);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* mode : {"naive", "flat", "per_param", "overlap", "no_sync", "(none)"}) {
    EXPECT_EQ(count(outcome.out, std::string("\n  ") + mode + " "), 1) << mode;
  }
  EXPECT_EQ(count(outcome.out, "equal: after 4 steps: ranks bit-equal"), 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("One rank alone:"));
  const auto json = nlohmann::json::parse(test::read(dir_ / "run" / "compare.json"));
  EXPECT_EQ(json["equal"], true);
  EXPECT_EQ(json["timed_steps"], 2 * 3) << "the first step of a turn does not count";
  for (const auto& mode : json["modes"]) {
    std::array<char, 32> printed{};
    std::snprintf(printed.data(), printed.size(), "%.2f", mode["step_ms"].get<double>());
    EXPECT_THAT(outcome.out, HasSubstr(printed.data())) << mode["mode"];
  }
}

TEST_F(CompareModes, EveryModeCommunicatesAsItSays) {
  const Outcome outcome = run(kSmall + std::string("--accum 4 --json"), 3);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::map<std::string, double> collectives;
  const auto json = nlohmann::json::parse(outcome.out);
  for (const auto& mode : json["modes"]) {
    collectives[mode["mode"]] = mode["collectives_per_step"];
    EXPECT_LT(mode["difference_to_one_rank"], 1e-6) << mode["mode"];
    EXPECT_EQ(mode["ranks_equal"], true);
  }
  const int buckets = 5;  // 64 x 64 fills one by itself, hence not the 6 parameters of per_param
  EXPECT_EQ(collectives["naive"], 6 * 4);
  EXPECT_EQ(collectives["per_param"], 6 * 4);
  EXPECT_EQ(collectives["flat"], collectives["overlap"]);
  EXPECT_EQ(collectives["no_sync"], collectives["overlap"] / 4);
  EXPECT_LE(collectives["overlap"], buckets * 4);
  EXPECT_EQ(json["modes"][0]["hidden_fraction"], 0.0) << "naive hides nothing";
}

TEST_F(CompareModes, OfOneRankHasNothingToCompareAndSaysSo) {
  const Outcome outcome = run(kSmall, 0);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("mpirun -np N"));
}

TEST_F(CompareModes, RefusesModesThatCannotBeCompared) {
  const Outcome unknown = run("--modes naive,overlab", 2);
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(count(unknown.err, "did you mean overlap?"), 1) << unknown.err;
  EXPECT_EQ(run("--modes naive,naive", 0).exit_code, 2);
  EXPECT_EQ(run("--modes no_sync", 0).exit_code, 2) << "needs --accum";
  EXPECT_EQ(run("--mode naive", 0).exit_code, 2) << "train_mlp's flag";
}

}  // namespace
}  // namespace brigade
