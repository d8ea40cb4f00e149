// Runs compare_modes as a user would.
#include <gmock/gmock.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>

#include "apps/metrics/timing_summary.h"
#include "tests/apps/compare/picture.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using test::count;
using test::Outcome;
using test::Picture;
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

TEST_F(CompareModes, WhatCannotBeReadOrWrittenIsRefusedBeforeTheRace) {
  const Outcome unread = run(kSmall + std::string("--init nowhere"), 2);
  EXPECT_EQ(unread.exit_code, 2);
  EXPECT_EQ(count(unread.err, "cannot read nowhere"), 1) << unread.err;
  EXPECT_EQ(unread.out, "");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "run"));

  std::filesystem::create_directories(dir_ / "run" / "compare.html");
  const Outcome unwritten = run(kSmall, 2);
  EXPECT_EQ(unwritten.exit_code, 2);
  EXPECT_EQ(count(unwritten.err, "it exists and is not a regular file"), 1) << unwritten.err;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "run" / "compare.json"));
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
  EXPECT_DOUBLE_EQ(json["ideal"]["samples_per_second"],
                   3 * 8 * 4 / (1e-3 * json["ideal"]["step_ms"].get<double>()))
      << "all three ranks', as in the modes";
  const int buckets = 5;  // 64 x 64 fills one by itself, hence not the 6 parameters of per_param
  EXPECT_EQ(collectives["naive"], 6 * 4);
  EXPECT_EQ(collectives["per_param"], 6 * 4);
  EXPECT_EQ(collectives["flat"], collectives["overlap"]);
  EXPECT_EQ(collectives["no_sync"], collectives["overlap"] / 4);
  EXPECT_LE(collectives["overlap"], buckets * 4);
  EXPECT_EQ(json["modes"][0]["hidden_fraction"], 0.0) << "naive hides nothing";
}

/// Of the recorded steps.
std::vector<double> values(const Picture& picture, double (Picture::*figure)() const) {
  std::vector<double> values;
  for (std::size_t step = 0; step < picture.steps.size(); ++step) {
    values.push_back((picture.step(step).*figure)());
  }
  return values;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// The median of the recorded steps, as the table takes it.
double median(const Picture& picture, double (Picture::*figure)() const) {
  return apps::quantile(values(picture, figure), 0.5);
}

/// The rank whose median step is longest, the one that the table describes.
Picture slowest_rank(const std::filesystem::path& trace) {
  const Picture first(trace, 0);
  const Picture second(trace, 1);
  const bool second_is_slower =
      median(second, &Picture::step_ms) > median(first, &Picture::step_ms);
  return second_is_slower ? second : first;
}

TEST_F(CompareModes, HidesAsMuchInTheTableAsInTheTraces) {
  // One turn, all timed steps recorded: the table and the trace describe the same three steps.
  const Outcome outcome =
      run("--depth 6 --width 512 --batch 256 --bucket-mb 1.1 --rounds 1 --steps 4 --threads 1 "
          "--modes naive,overlap --trace --trace-steps 3 --emulate-link 100,0.3 --out run",
          2);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(test::read(dir_ / "run" / "compare.json"));
  double hidden_somewhere = 0.0;
  for (const auto& mode : json["modes"]) {
    const std::string name = mode["mode"];
    const Picture slowest = slowest_rank(dir_ / "run" / ("trace-" + name + ".json.gz"));
    ASSERT_EQ(slowest.steps.size(), json["timed_steps"]);
    const double exposed = median(slowest, &Picture::exposed_ms);
    const double comm = sum(values(slowest, &Picture::comm_ms));
    const double hidden = 1.0 - sum(values(slowest, &Picture::exposed_ms)) / comm;
    EXPECT_NEAR(mode["hidden_fraction"], hidden, 1e-3) << name;
    EXPECT_NEAR(mode["exposed_ms"], exposed, 1e-3) << name;
    const std::regex row("\n  " + name + R"((?: +\S+){7} +(\d+) )");
    std::smatch cells;
    ASSERT_TRUE(std::regex_search(outcome.out, cells, row)) << outcome.out;
    EXPECT_NEAR(std::stod(cells[1]), 100.0 * hidden, 0.6) << name;
    hidden_somewhere = std::max(hidden_somewhere, hidden);
  }
  EXPECT_GT(hidden_somewhere, 0.01) << "or there was nothing to compare";
}

TEST_F(CompareModes, ThePageHasTheNumbersOfTheTable) {
  const Outcome outcome = run(kSmall, 2);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string page = test::read(dir_ / "run" / "compare.html");
  const auto json = nlohmann::json::parse(test::read(dir_ / "run" / "compare.json"));
  for (const auto& mode : json["modes"]) {
    std::array<char, 32> step{};
    std::snprintf(step.data(), step.size(), "<td>%.2f</td>", mode["step_ms"].get<double>());
    EXPECT_THAT(page, HasSubstr(step.data())) << mode["mode"];
    EXPECT_THAT(page, HasSubstr(mode["mode"].get<std::string>() + ", 2 ranks"));
  }
  EXPECT_EQ(count(page, "<h2>Step</h2>"), 1);
  for (const auto& mode : json["modes"]) {
    std::array<char, 96> backward{};
    std::snprintf(backward.data(), backward.size(), "<title>backward %.1f ms</title>",
                  mode["backward_ms"].get<double>());
    EXPECT_THAT(page, HasSubstr(backward.data())) << mode["mode"];
  }
  EXPECT_THAT(page, testing::Not(HasSubstr("<script")));
  EXPECT_THAT(page, testing::Not(HasSubstr("http://"))) << "nothing is loaded from elsewhere";
}

TEST_F(CompareModes, ComparesAdamWithoutCryingWolf) {
  const Outcome outcome = run(kSmall + std::string("--optimizer adam"), 3);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
}

TEST_F(CompareModes, WeightsThatAreNotEqualAreSaidToBeAndEndTheJobWithCodeThree) {
  // The decay multiplies the weights by -1e24 in the first step, which leaves the second one's loss
  // finite, and in the second once more, which is too much for a float. inf less inf is NaN, and
  // so no difference between the modes is small.
  const Outcome outcome =
      run("--hidden none --loss cross_entropy --weight-decay 1e25 --batch 8 --rounds 1 --steps 2 "
          "--threads 1 --out run",
          2);
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_THAT(outcome.out, testing::ContainsRegex("- NOT EQUAL: after 2 steps: ranks bit-equal; "
                                                  "modes differ by -?nan "));
  EXPECT_EQ(count(outcome.err, "compare_modes: the weights are not equal"), 1) << outcome.err;
  const auto json = nlohmann::json::parse(test::read(dir_ / "run" / "compare.json"));
  EXPECT_EQ(json["equal"], false);
}

TEST_F(CompareModes, OfOneRankHasNothingToCompareAndSaysSo) {
  const Outcome outcome = run(kSmall, 0);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("mpirun -np N"));
}

TEST_F(CompareModes, RefusesADataSetSmallerThanAStep) {
  const Outcome outcome = run("--batch 8 --accum 2 --train-samples 31", 2);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(count(outcome.err,
                  "[rank 0] compare_modes: expected at least as many training samples "
                  "as a global batch has, 32 (--batch x --accum x ranks), got 31"),
            1)
      << outcome.err;
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
