// brigade_doctor as a user starts it.
#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/support/pretend_hosts.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using test::Outcome;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

Outcome run(const std::string& program, const std::string& flags, int ranks) {
  const TemporaryDirectory directory;
  return test::run_program(program, flags, ranks, directory.path());
}

Outcome doctor(const std::string& flags, int ranks) {
  return run(BRIGADE_DOCTOR, flags, ranks);
}

TEST(Doctor, ShowsOneRankAlone) {
  const Outcome outcome = doctor("", 0);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("rank  host  device"));
  EXPECT_EQ(test::count(outcome.out, "none (one rank)"), 1) << outcome.out;
}

TEST(Doctor, ShowsALinePerRankAndItsLink) {
  const Outcome outcome = doctor("", 2);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(test::count(outcome.out, " GB/s "), 2) << outcome.out;
}

TEST(Doctor, TwoRanksOnOneCoreAreAWarning) {
  const std::string on_core_0 = "taskset -c 0 " BRIGADE_DOCTOR;
  const std::string warning = "2 ranks compute with 2 threads, usable cores 1: start only 1 ";
  const Outcome outcome = run(on_core_0, "", 2);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\nwarning: "));
  EXPECT_THAT(outcome.out, HasSubstr(warning));
  EXPECT_EQ(test::count(outcome.out, "all is well"), 0);
  EXPECT_EQ(run(on_core_0, "--strict", 2).exit_code, 3);

  const TemporaryDirectory directory;
  const Outcome training =
      test::run_program("taskset -c 0 " BRIGADE_TRAIN_MLP, test::kTiny, 2, directory.path());
  EXPECT_EQ(training.exit_code, 0) << training.err;
  EXPECT_EQ(test::count(training.err, warning), 1) << training.err;
}

TEST(Doctor, PrintsTheSameFactsAsJson) {
  const Outcome outcome = doctor("--json", 2);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_TRUE(json["warnings"].is_array());
  ASSERT_EQ(json["ranks"].size(), 2U);
  const auto& rank = json["ranks"][1];
  EXPECT_EQ(rank["rank"], 1);
  EXPECT_EQ(rank["program"], json["ranks"][0]["program"]);
  EXPECT_THAT(rank["program"].get<std::string>(), MatchesRegex("program [0-9a-f]{16}"));
  EXPECT_THAT(rank["libraries"].get<std::string>(),
              MatchesRegex("MPI .*OpenBLAS [0-9.]+, bf16 (by|as f32:) .*"));
  EXPECT_GT(rank["same_host"]["ns_per_byte"], 0.0);
  EXPECT_EQ(rank["between_hosts"]["ns_per_byte"], 0.0);
  EXPECT_GT(rank["cores"].size(), 0U);
  EXPECT_GT(rank["shared_mib"], 0.0);
  EXPECT_LT(std::abs(rank["clock_ms"].get<double>()), 50.0) << "one host has one clock";
}

TEST(Doctor, AWrongFlagIsOneLineAndCodeTwo) {
  const Outcome outcome = doctor("--jsn", 2);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(test::count(outcome.err, "brigade_doctor: unknown flag --jsn; did you mean --json?"), 1)
      << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

/// Two pretend hosts whose link has 500 Mbit/s, in a lab that is up.
class DoctorOfTwoHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = test::obstacle_to_pretend_hosts(); !reason.empty()) {
      GTEST_SKIP() << "no shaped link: " << reason;
    }
    ASSERT_EQ(lab("up --hosts 2 --rate 500mbit").exit_code, 0);
  }
  void TearDown() override { lab("down"); }

  Outcome lab(const std::string& flags) const { return run(test::netlab(), flags, 0); }
};

TEST_F(DoctorOfTwoHosts, MeasuresTheRateOfTheLink) {
  const Outcome outcome = lab("run -- " BRIGADE_DOCTOR " --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(json["ranks"].size(), 2U);
  for (const auto& rank : json["ranks"]) {
    constexpr double kGigabytesPerS = 0.0625;
    const double measured = 1.0 / rank["between_hosts"]["ns_per_byte"].get<double>();
    EXPECT_LT(measured, 1.2 * kGigabytesPerS);
    EXPECT_GT(measured, 0.6 * kGigabytesPerS) << "on a busy machine";
    EXPECT_GT(rank["between_hosts"]["alpha_us"], 0.0);
    EXPECT_EQ(rank["same_host"]["ns_per_byte"], 0.0) << "one rank per host";
    EXPECT_EQ(rank["transport"], "eth0");
  }
  EXPECT_EQ(json["ranks"][1]["host"], "h2");
  EXPECT_LT(outcome.seconds, 10.0) << "with mpirun and the start of two pretend hosts";
}

}  // namespace
}  // namespace brigade
