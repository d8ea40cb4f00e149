#include "apps/metrics/model_flop.h"

#include <gtest/gtest.h>

namespace brigade::apps {
namespace {

TEST(ModelFlop, CountsEachProductOnceAndNoDxOfTheFirstLayer) {
  const StepShape shape{.network = {.widths = {10, 20, 5}, .bias = true}, .batch = 4, .accum = 2};
  const double first = 2.0 * 4 * 10 * 20;
  const double last = 2.0 * 4 * 20 * 5;
  EXPECT_DOUBLE_EQ(model_flop(shape), 2 * (2 * first + 3 * last));
  EXPECT_DOUBLE_EQ(model_flop_utilisation(shape, 100.0, model_flop(shape) / 1e8 * 2), 0.5);
  EXPECT_EQ(model_flop_utilisation(shape, 100.0, 0.0), 0.0);
}

TEST(ModelFlop, TheMachinesRateIsAbove0) {
  EXPECT_GT(measure_gemm_gflops(kCpu), 0.0);
  EXPECT_GT(measure_gemm_gflops(kCpu, DType::bf16), 0.0);
}

}  // namespace
}  // namespace brigade::apps
