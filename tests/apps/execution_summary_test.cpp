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

TEST(ExecutionSummary, TimesEveryOperation) {
  const TemporaryDirectory dir;
  const test::Outcome outcome = test::run_program(
      BRIGADE_TRAIN_MLP, "--hidden 256,256 --batch 128 --steps 12 --threads 1 --accum 2 --out run",
      2, dir.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto summary = nlohmann::json::parse(test::read(dir.path() / "run" / "summary.json"));
  std::map<std::string, double> calls;
  for (const auto& operation : summary["operations"]) {
    calls[operation["name"]] = operation["calls"];
    EXPECT_GT(operation["ms"].get<double>(), 0.0) << operation;
  }
  EXPECT_EQ(calls["backward linear"], 2);
  EXPECT_EQ(calls["backward linear_relu"], 4);
  EXPECT_EQ(calls["forward Linear"], 6);
  EXPECT_EQ(calls["optimizer"], 1);
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

TEST(ExecutionSummary, TimesUpdatesInFlightAsOneOptimizer) {
  for (const std::string flags :
       {"--optimizer-overlap --bucket-mb 0.005", "--cross-step --bucket-mb 0.005",
        "--cross-step --mode per_param"}) {
    const TemporaryDirectory dir;
    const test::Outcome outcome = test::run_program(
        BRIGADE_TRAIN_MLP, "--hidden 64,64 --steps 12 --threads 1 --out run " + flags, 2,
        dir.path());
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const auto summary = nlohmann::json::parse(test::read(dir.path() / "run" / "summary.json"));
    int rows = 0;
    for (const auto& operation : summary["operations"]) {
      if (operation["name"].get<std::string>().starts_with("optimizer")) {
        ++rows;
        EXPECT_GT(operation["calls"], 1.0) << "one per bucket";
        EXPECT_GT(operation["ms"].get<double>(), 0.0);
      }
    }
    EXPECT_EQ(rows, 1) << flags;
  }
}

}  // namespace
}  // namespace brigade
