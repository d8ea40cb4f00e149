#include "core/dispatch.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "core/dtype.h"
#include "core/runtime/context.h"
#include "tests/support/expect_error.h"

namespace brigade {
namespace {

TEST(Dispatch, ChoosesTheCpuKernelsForTheCpu) {
  const bool is_cpu = dispatch(kCpu, []<class K>(K) { return std::is_same_v<K, CpuKernels>; });
  EXPECT_TRUE(is_cpu);
}

TEST(Dispatch, SaysThatABuildWithoutCudaHasNoGpu) {
  if constexpr (kHasCuda) {
    GTEST_SKIP() << "this build has CUDA";
  }
  const Device gpu{DeviceType::cuda, 1};
  EXPECT_ERROR(dispatch(gpu, []<class K>(K) {}),
               "dispatch: cuda:1 asked of a build without CUDA; use --device cpu");
  EXPECT_ERROR(compute_stream(gpu), "stream: cuda:1 asked of a build without CUDA");
}

TEST(Dispatch, SaysWhyThereIsNoGpu) {
  const CudaInfo info = cuda_info();
  EXPECT_EQ(info.device_count == 0, !info.why_not.empty());
}

TEST(Dispatch, RefusesFloatKernelsForWholeNumbers) {
  EXPECT_ERROR(dispatch_float(DType::i64, []<class T>() {}),
               "expected a f32 or f64 tensor, got i64");
}

}  // namespace
}  // namespace brigade
