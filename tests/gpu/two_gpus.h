#pragma once

#include "tests/gpu/gpu_test.h"
#include "tests/support/environment.h"

namespace brigade {

/// Skips, with the reason, where there are not two GPUs. The emulator then has two.
class TwoGpusTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (const int count = cuda_info().device_count; !IsSkipped() && count < 2) {
      GTEST_SKIP() << "expected two GPUs, got " << count;
    }
  }

 private:
  const test::EnvironmentVariable gpus_{"EMULATOR_GPUS", "2"};
};

}  // namespace brigade
