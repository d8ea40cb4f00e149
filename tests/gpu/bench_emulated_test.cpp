// bench_all_reduce over the emulated GPU, whose operations take as long as one likes.
#include <nlohmann/json.hpp>

#include "tests/gpu/gpu_test.h"
#include "tests/support/environment.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using BenchOnGpu = GpuTest;

TEST_F(BenchOnGpu, AnAllReduceIsTimedToItsEnd) {
  const TemporaryDirectory directory;
  const test::EnvironmentVariable delay("EMULATOR_DELAY_US", "20000");
  const test::Outcome outcome = test::run_program(
      BRIGADE_BENCH, "--device cuda -b 8 -e 8 -n 5 -w 0 --json", 2, directory.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json result = nlohmann::json::parse(outcome.out)["results"][0];
  EXPECT_EQ(result["rows"][0]["wrong"], 0);
  EXPECT_GT(result["rows"][0]["time_us"].get<double>(), 20'000.0)
      << "no longer than one operation may be delayed: " << result;
}

}  // namespace
}  // namespace brigade
