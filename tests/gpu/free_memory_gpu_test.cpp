// What is free is a number of the whole GPU: nothing else may run beside this.
#include <cuda_runtime_api.h>

#include "core/runtime/allocator.h"
#include "core/runtime/context.h"
#include "tests/gpu/gpu_test.h"

namespace brigade {
namespace {

using FreeMemoryOnGpu = GpuTest;

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return free;
}

TEST_F(FreeMemoryOnGpu, WhatIsTrimmedIsTheSystemsAgain) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 28;
  Context::current().allocator(kGpu)->trim();
  Tensor::empty({kBytes / 4}, DType::f32, kGpu);
  const std::size_t kept = free_bytes();
  Context::current().allocator(kGpu)->trim();
  EXPECT_GE(free_bytes(), kept + kBytes);
}

}  // namespace
}  // namespace brigade
