// bench_all_reduce over the emulated GPU, where one can say how long an all-reduce takes at least.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/gpu/gpu_test.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using BenchOnGpu = GpuTest;

TEST_F(BenchOnGpu, AnAllReduceIsTimedToItsEnd) {
  const TemporaryDirectory directory;
  const char* delay = std::getenv("EMULATOR_DELAY_US");
  const std::string before = delay == nullptr ? "0" : delay;
  setenv("EMULATOR_DELAY_US", "200000", 1);  // of each operation of a stream, at most
  const test::Outcome outcome = test::run_program(
      BRIGADE_BENCH, "--device cuda -b 8 -e 8 -n 3 -w 0 --json", 2, directory.path());
  setenv("EMULATOR_DELAY_US", before.c_str(), 1);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json result = nlohmann::json::parse(outcome.out)["results"][0];
  for (const char* where : {"in_place", "out_of_place"}) {
    EXPECT_EQ(result["rows"][0][where]["wrong"], 0);
    EXPECT_GT(result["rows"][0][where]["time_us"].get<double>(), 20'000.0) << result;
  }
}

}  // namespace
}  // namespace brigade
