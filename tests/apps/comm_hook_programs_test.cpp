// train_mlp and compare_modes with --comm-hook, under mpirun.
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using test::Outcome;
using testing::HasSubstr;

class HookPrograms : public testing::Test {
 protected:
  Outcome run(const std::string& program, const std::string& flags, int ranks) const {
    return test::run_program(program, flags, ranks, dir_.path());
  }

  /// summary.json of a short run on Fashion-MNIST-sized layers.
  nlohmann::json summary(const std::string& flags, int ranks) const {
    const Outcome outcome = run(
        BRIGADE_TRAIN_MLP,
        "--hidden 64,64 --steps 8 --batch 8 --bucket-mb 0.05 --threads 1 --json " + flags, ranks);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  }

  TemporaryDirectory dir_;
};

TEST_F(HookPrograms, FlatAndOverlapEndWithTheSameBits) {
  for (const char* hook : {"fp16", "bf16", "powersgd:rank=2", "topk:ratio=0.1"}) {
    const std::string flags = std::string("--comm-hook ") + hook;
    const auto flat = summary(flags + " --mode flat", 3);
    const auto overlap = summary(flags + " --mode overlap", 3);
    EXPECT_EQ(flat["params_equal"], true) << hook;
    EXPECT_EQ(overlap["params_hash"], flat["params_hash"]) << hook;
  }
}

TEST_F(HookPrograms, ReportWhatTravels) {
  const auto none = summary("", 2);
  const auto half = summary("--comm-hook fp16", 2);
  const double handed = none["bytes_reduced_per_step"];
  EXPECT_EQ(none["bytes_sent_per_step"], handed) << "2 (N-1)/N = 1";
  EXPECT_DOUBLE_EQ(none["compression_ratio"], 1.0);
  EXPECT_EQ(half["bytes_reduced_per_step"], handed);
  EXPECT_EQ(half["bytes_sent_per_step"], handed / 2);
  EXPECT_DOUBLE_EQ(half["compression_ratio"], 2.0);
  EXPECT_NE(half["params_hash"], none["params_hash"]);
  EXPECT_NEAR(summary("--comm-hook topk:ratio=0.05", 2)["compression_ratio"], 10.0, 0.1);
  EXPECT_GT(summary("--comm-hook powersgd:rank=1", 2)["compression_ratio"], 10.0);
}

TEST_F(HookPrograms, SayWhatTheyDo) {
  const Outcome outcome =
      run(BRIGADE_TRAIN_MLP, "--hidden 64 --steps 4 --batch 8 --threads 1 --comm-hook bf16", 2);
  EXPECT_THAT(outcome.out, HasSubstr("bf16: 16 bits per number on the wire, added up in float"));
  EXPECT_THAT(outcome.out, HasSubstr("sent by rank 0, 2.0 times less than uncompressed (bf16)"));
}

TEST_F(HookPrograms, AComparisonAcceptsApproximationsButNotRanksThatDiffer) {
  const Outcome outcome =
      run(BRIGADE_COMPARE_MODES,
          "--hidden 64,64 --batch 8 --bucket-mb 0.05 --rounds 2 --steps 4 --threads 1 --out run "
          "--comm-hook topk:ratio=0.1",
          2);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("equal: after 4 steps: ranks bit-equal"));
  EXPECT_THAT(outcome.out, HasSubstr("gradients are compressed (topk:ratio=0.1)"));
  const auto json = nlohmann::json::parse(test::read(dir_ / "run" / "compare.json"));
  std::map<std::string, nlohmann::json> modes;
  for (const auto& mode : json["modes"]) {
    modes[mode["mode"]] = mode;
    EXPECT_NEAR(mode["compression_ratio"], 5.0, 0.3) << mode["mode"];
    EXPECT_GT(mode["difference_to_one_rank"], 1e-6) << "one rank is not compressed";
  }
  EXPECT_EQ(modes.count("naive"), 0U);
  EXPECT_EQ(modes["flat"]["params_hash"], modes["overlap"]["params_hash"]);
}

}  // namespace
}  // namespace brigade
