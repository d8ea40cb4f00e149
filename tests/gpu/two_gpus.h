#pragma once

#include <cstdlib>

#include "tests/gpu/gpu_test.h"

namespace brigade {

/// Skips, with the reason, where there are not two GPUs. The emulator then has two.
class TwoGpusTest : public GpuTest {
 protected:
  void SetUp() override {
    setenv("EMULATOR_GPUS", "2", 1);
    GpuTest::SetUp();
    if (const int count = cuda_info().device_count; !IsSkipped() && count < 2) {
      GTEST_SKIP() << "expected two GPUs, got " << count;
    }
  }
  void TearDown() override { unsetenv("EMULATOR_GPUS"); }
};

}  // namespace brigade
