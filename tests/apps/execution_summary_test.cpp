// The last lines of a run, recomputed from its summary.json.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using testing::HasSubstr;

TEST(ExecutionSummary, HasTheSharesOfTheSummaryFile) {
  const TemporaryDirectory dir;
  const test::Outcome outcome =
      test::run_program(BRIGADE_TRAIN_MLP,
                        "--hidden 256,256 --steps 12 --threads 1 --trace --out run", 2, dir.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(test::read(dir.path() / "run" / "summary.json"));
  const auto percent = [&json](double ms) {
    return fmt::format("{:.0f} %", 100.0 * ms / json["step_ms"].get<double>());
  };
  EXPECT_THAT(outcome.out,
              HasSubstr(fmt::format(
                  "utilisation of rank {}: {} of the step computes; communication {}, exposed {}\n",
                  json["slowest_rank"].get<int>(),
                  percent(json["step_ms"].get<double>() - json["wait_ms"].get<double>()),
                  percent(json["comm_ms"]), percent(json["exposed_ms"]))));
  EXPECT_THAT(outcome.out,
              HasSubstr(fmt::format("  {:<22} {:>9.2f} MiB 100.0 %", "sum",
                                    json["peak_memory_bytes"].get<double>() / 0x1p20)));
  // The operations, with their shares of all there are, the most expensive first.
  const std::regex top(R"(top operations of rank 0 in 3 recorded steps: (.*))");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(outcome.out, found, top)) << outcome.out;
  const std::string operations = found[1];
  const std::regex entry(R"(([a-zA-Z_ ]+) ([\d.]+) ms \((\d+) %\))");
  double before = 1e9;
  int total = 0;
  for (std::sregex_iterator at(operations.begin(), operations.end(), entry), end; at != end; ++at) {
    EXPECT_LE(std::stod((*at)[2]), before) << operations;
    before = std::stod((*at)[2]);
    total += std::stoi((*at)[3]);
  }
  EXPECT_GT(total, 80) << operations;
  EXPECT_LE(total, 103) << operations;
  EXPECT_THAT(operations, HasSubstr("backward linear"));
}

TEST(ExecutionSummary, ProfilesTheOperationsAgainstTheLimitsOfTheMachine) {
  const TemporaryDirectory dir;
  const test::Outcome outcome = test::run_program(
      BRIGADE_TRAIN_MLP,
      "--hidden 256,256 --batch 128 --steps 12 --threads 1 --accum 2 --profile --out run", 2,
      dir.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::ContainsRegex("  MFU [0-9]+ % .[0-9.]+ GFLOP/s."));
  EXPECT_THAT(outcome.out, HasSubstr("profile of rank 0 in 3 recorded steps; limits measured"));
  const auto summary = nlohmann::json::parse(test::read(dir.path() / "run" / "summary.json"));
  EXPECT_GT(summary["model_flop_utilisation"], 0.0);
  EXPECT_EQ(summary["gemm_gflops"], summary["profile"]["gemm_gflops"]);
  const auto profile = summary["profile"];
  EXPECT_GT(profile["gemm_gflops"], 0.0);
  std::map<std::string, double> calls;
  for (const auto& operation : profile["operations"]) {
    if (!operation["flop"].is_null()) {
      calls[operation["name"]] = operation["calls"];
      EXPECT_GT(operation["ms"].get<double>(), 0.0) << operation;
      EXPECT_GT(operation["floor_ms"].get<double>(), 0.0) << operation;
    }
  }
  const std::map<std::string, double> expected{
      {"backward linear", 2}, {"backward linear_relu", 4}, {"forward Linear", 6}, {"optimizer", 1}};
  EXPECT_EQ(calls, expected) << "what the work is counted for is what really ran";
}

TEST(ExecutionSummary, CountsTheProductsOfTheSamplesThereAre) {
  const auto model_flop = [](const std::string& flags) {
    const TemporaryDirectory dir;
    const test::Outcome outcome = test::run_program(
        BRIGADE_TRAIN_MLP, "--hidden 64,64 --steps 4 --threads 1 --json " + flags, 0, dir.path());
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out)["model_flop"].get<double>();
  };
  const double eight = model_flop("--train-samples 8 --batch 8");
  EXPECT_GT(eight, 0.0);
  EXPECT_EQ(model_flop("--train-samples 8 --batch 512"), eight);
  EXPECT_EQ(model_flop("--train-samples 8 --batch 512 --uneven pad"), 64 * eight);
  EXPECT_EQ(model_flop("--train-samples 15 --batch 512 --accum 2"), 2 * eight) << "8 and 7";
  EXPECT_EQ(model_flop("--train-samples 12 --batch 8"), eight) << "the last step has only four";
}

TEST(ExecutionSummary, OneRankEmulatesNoLink) {
  const TemporaryDirectory dir;
  const test::Outcome outcome = test::run_program(
      BRIGADE_TRAIN_MLP, test::kTiny + std::string("--emulate-link 50,0.6 --out run"), 0,
      dir.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(test::count(outcome.err,
                        "[rank 0] warning: --emulate-link: without effect: one rank "
                        "sends nothing; start more with mpirun -np 2"),
            1)
      << outcome.err;
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("emulated")));
  EXPECT_TRUE(
      nlohmann::json::parse(test::read(dir.path() / "run" / "summary.json"))["emulated_link"]
          .is_null());
}

TEST(ExecutionSummary, ProfilesUpdatesInFlightAsOneOptimizer) {
  for (const std::string flags :
       {"--optimizer-overlap --bucket-by layer", "--cross-step --bucket-by layer",
        "--cross-step --mode per_param"}) {
    const TemporaryDirectory dir;
    const test::Outcome outcome = test::run_program(
        BRIGADE_TRAIN_MLP, "--hidden 64,64 --steps 12 --threads 1 --profile --out run " + flags, 2,
        dir.path());
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const auto profile =
        nlohmann::json::parse(test::read(dir.path() / "run" / "summary.json"))["profile"];
    int rows = 0;
    for (const auto& operation : profile["operations"]) {
      if (operation["name"].get<std::string>().starts_with("optimizer")) {
        ++rows;
        EXPECT_GT(operation["calls"], 1.0) << "one per bucket";
        EXPECT_GT(operation["ms"].get<double>(), 0.0);
        EXPECT_GT(operation["bytes"], 0.0) << operation;
      }
    }
    EXPECT_EQ(rows, 1) << flags << profile;
  }
}

}  // namespace
}  // namespace brigade
