// ddp_plan as a user starts it, after a run of train_mlp.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using test::Outcome;
using testing::HasSubstr;

/// A step is mostly communication, which sleeps, so that a busy machine disturbs it little.
constexpr const char* kTraining =
    "--depth 4 --width 256 --batch 32 --steps 25 --warmup 5 --threads 1 --bucket-mb 0.5 "
    "--emulate-link 500,0.02 --json --out ";

class DdpPlan : public testing::Test {
 protected:
  Outcome train(const std::string& flags, const std::string& out, int ranks = 2) const {
    return test::run_program(BRIGADE_TRAIN_MLP, kTraining + out + " " + flags, ranks,
                             directory_.path());
  }
  Outcome plan(const std::string& flags) const {
    return test::run_program(BRIGADE_DDP_PLAN, flags, 0, directory_.path());
  }

  TemporaryDirectory directory_;
};

TEST_F(DdpPlan, PredictsTheOtherModes) {
  for (const std::string mode : {"naive", "flat", "per_param", "overlap", "overlap --cross-step",
                                 "overlap --shard-optimizer", "no_sync --accum 3"}) {
    // Emulated links charge each half of a sum the latency of the whole.
    const std::string link = mode.ends_with("-optimizer") ? " --emulate-link 0,0.02" : "";
    double error = 1.0;
    for (int attempt = 0; attempt < 5 && error > 0.1; ++attempt) {  // other programs disturb both
      ASSERT_EQ(train("--mode naive" + link, "profiled").exit_code, 0);
      const Outcome answer =
          plan("profiled/profile.json --ranks 2 --bucket-mb 0.5 --json --mode " + mode);
      ASSERT_EQ(answer.exit_code, 0) << answer.err;
      const double predicted = nlohmann::json::parse(answer.out)["rows"][0]["step_ms"];
      const Outcome run = train("--mode " + mode + link, "run");
      ASSERT_EQ(run.exit_code, 0) << run.err;
      const double measured = nlohmann::json::parse(run.out)["step_ms"];
      error = std::abs(predicted / measured - 1.0);
    }
    EXPECT_LT(error, 0.1) << mode;
  }
}

TEST_F(DdpPlan, ShowsATableAndWritesAPage) {
  ASSERT_EQ(train("--steps 5", "alone", 0).exit_code, 0);
  const Outcome outcome =
      plan("alone/profile.json --link 10,1 --ranks 1,8,64 --html plan.html --global-batch 64");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("network: 10 us, 1 GB/s"));
  EXPECT_THAT(outcome.out, HasSubstr("\n64 "));
  EXPECT_TRUE(exists(directory_.path() / "plan.html"));
}

TEST_F(DdpPlan, RefusesWhatItCannotAnswer) {
  ASSERT_EQ(train("--steps 5", "alone", 0).exit_code, 0);
  const auto expect_refusal = [this](const std::string& flags, const std::string& text) {
    const Outcome outcome = plan(flags);
    EXPECT_EQ(outcome.exit_code, 2) << flags;
    EXPECT_THAT(outcome.err, HasSubstr(text)) << flags;
    EXPECT_EQ(test::count(outcome.err, "\n"), 1) << outcome.err;
  };
  expect_refusal("alone/profile.json", "ddp_plan: --link: expected US,GB/S or the profile");
  expect_refusal("nowhere.json", "ddp_plan: cannot read nowhere.json: No such file or directory");
  expect_refusal("alone/summary.json", "alone/summary.json: no profile.json of a run");
  expect_refusal("alone/profile.json --link 1,1 --ranks 0", "--ranks");
  expect_refusal("alone/profile.json --link 1,1 --mode nave", "--mode");
  expect_refusal("alone/profile.json --link 1,1 --cross-step --mode naive", "--cross-step");
  expect_refusal("alone/profile.json --link 1,1 --shard-optimizer --comm-hook bf16",
                 "--shard-optimizer");
  expect_refusal("alone/profile.json --link 1,1 --spread nan", "--spread: expected a number");
  expect_refusal("alone/profile.json --link ''", "--link: expected a name");
  expect_refusal("alone/profile.json --link 1,1 --bucket-mb few", "--bucket-mb");
  expect_refusal("alone/profile.json --link 1,1 --html /nowhere/plan.html", "/nowhere/plan.html");
}

}  // namespace
}  // namespace brigade
