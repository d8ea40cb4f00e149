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

TEST(ExecutionSummary, HasTheNumbersOfTheSummaryFile) {
  const TemporaryDirectory dir;
  const test::Outcome outcome =
      test::run_program(BRIGADE_TRAIN_MLP,
                        "--hidden 256,256 --steps 12 --threads 1 --trace --out run", 2, dir.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(test::read(dir.path() / "run" / "summary.json"));
  const auto number = [&json](const char* key) { return json[key].get<double>(); };
  EXPECT_THAT(outcome.out, HasSubstr(fmt::format("\nstep: median {:.2f} ms, p95 {:.2f} ms, ",
                                                 number("step_ms"), number("step_ms_p95"))));
  const double computing = (number("step_ms") - number("wait_ms")) / number("step_ms");
  EXPECT_THAT(outcome.out, HasSubstr(fmt::format(", computing {:.0f} %\n", 100.0 * computing)));
  EXPECT_THAT(outcome.out,
              HasSubstr(fmt::format(
                  "\ncommunication: {:.2f} ms per step, exposed {:.2f} ms, hidden "
                  "behind computation {:.0f} %, collectives {:g}, {:.2f} MiB reduced",
                  number("comm_ms"), number("exposed_ms"), 100.0 * number("hidden_fraction"),
                  number("collectives_per_step"), number("bytes_reduced_per_step") / 0x1p20)));
  EXPECT_THAT(outcome.out,
              HasSubstr(fmt::format("sum {:.2f} MiB", number("peak_memory_bytes") / 0x1p20)));
  // The operations, the longest first.
  const std::regex top(R"(top operations of rank 0 in 3 recorded steps: (.*))");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(outcome.out, found, top)) << outcome.out;
  const std::string operations = found[1];
  const std::regex entry(R"(([a-zA-Z_ ]+) ([\d.]+) ms)");
  double before = 1e9;
  int entries = 0;
  for (std::sregex_iterator at(operations.begin(), operations.end(), entry), end; at != end; ++at) {
    EXPECT_LE(std::stod((*at)[2]), before) << operations;
    before = std::stod((*at)[2]);
    ++entries;
  }
  EXPECT_EQ(entries, 5) << operations;
  EXPECT_THAT(operations, HasSubstr("backward linear"));
}

TEST(ExecutionSummary, ProfilesTheOperationsAgainstTheLimitsOfTheMachine) {
  const TemporaryDirectory dir;
  const test::Outcome outcome = test::run_program(
      BRIGADE_TRAIN_MLP,
      "--hidden 256,256 --batch 128 --steps 12 --threads 1 --accum 2 --profile --out run", 2,
      dir.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::ContainsRegex("samples/s  MFU [0-9]+ %"));
  EXPECT_THAT(outcome.out,
              HasSubstr("profile of rank 0 in 3 recorded steps; limits of this machine"));
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
       {"--optimizer-overlap --bucket-mb 0.02", "--cross-step --bucket-mb 0.02",
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
