// bench_all_reduce as a user starts it, once per backend.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using test::Outcome;
using testing::HasSubstr;

Outcome bench(const std::string& flags, int ranks) {
  const TemporaryDirectory directory;
  return test::run_program(BRIGADE_BENCH, "-n 2 -w 1 --device cpu " + flags, ranks,
                           directory.path());
}

struct Case {
  const char* comm;
  int ranks;
  const char* description;  ///< what must have carried the data
};

class BenchAllReduce : public testing::TestWithParam<Case> {};

// 3 and 5 ranks: no size is divisible by the number of ranks.
TEST_P(BenchAllReduce, GetsEverySumRight) {
  const Case& expected = GetParam();
  const Outcome outcome =
      bench(fmt::format("-b 8 -e 3M -f 59 --json --comm {}", expected.comm), expected.ranks);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["ranks"], expected.ranks == 0 ? 1 : expected.ranks);
  ASSERT_EQ(json["results"].size(), 1U);
  EXPECT_THAT(json["results"][0]["comm"].get<std::string>(), HasSubstr(expected.description));
  ASSERT_EQ(json["results"][0]["rows"].size(), 4U) << "8, 472, 27848, 1643032 bytes";
  for (const auto& row : json["results"][0]["rows"]) {
    EXPECT_EQ(row["wrong"], 0) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Backends, BenchAllReduce,
    testing::Values(Case{"auto", 0, "none (one rank)"},
                    Case{"auto", 3, "shared memory of one host"}, Case{"mpi", 3, "MPI ("},
                    Case{"shared", 5, "shared memory of one host"},
                    Case{"hierarchical", 3, "hierarchical 1 x 3: "}, Case{"ring", 3, "ring"},
                    Case{"halving", 5, "halving"}, Case{"tree", 5, "tree"}),
    [](const auto& test) { return fmt::format("{}{}", test.param.comm, test.param.ranks); });

TEST(BenchProgram, PrintsATableAndAFitPerCommunicator) {
  const Outcome outcome = bench("-b 8K -e 64K --comm mpi,shared", 2);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(test::count(outcome.out, "time   algbw   busbw  #wrong"), 2);
  EXPECT_EQ(test::count(outcome.out, "# fit: alpha "), 2);
}

TEST(BenchProgram, WrongFlagsAreOneLineAndCodeTwo) {
  const auto complaint = [](const std::string& flags, const std::string& line) {
    const Outcome outcome = bench(flags, 2);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(test::count(outcome.err, line), 1) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  };
  complaint("-b 2M -e 1M", "bench_all_reduce: --max-bytes: expected at least --min-bytes");
  complaint("--comm nccl", "[rank 0] comm: nccl moves GPU memory, but this run is on the CPU");
}

}  // namespace
}  // namespace brigade
