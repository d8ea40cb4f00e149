#include <algorithm>
#include <cstdint>

#include "core/cuda/products.h"
#include "core/runtime/allocator.h"
#include "core/runtime/context.h"
#include "tests/gpu/busy_until_waited_private.h"
#include "tests/gpu/gpu_test.h"

namespace brigade {
namespace {

using MemoryOnGpu = GpuTest;

TEST_F(MemoryOnGpu, AReleasedBlockIsUsedAgain) {
  CachingAllocator allocator(kGpu);
  void* first = allocator.allocate(1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % CachingAllocator::kAlignment, 0U);
  allocator.release(first, 1000);
  EXPECT_EQ(allocator.allocate(1001), first) << "1000 and 1001 round to one size";
  EXPECT_EQ(allocator.stats().system_allocations, 1U);
  allocator.release(first, 1001);
}

TEST_F(MemoryOnGpu, OutOfMemoryIsAnErrorThatLeavesTheGpuUsable) {
  CachingAllocator allocator(kGpu);
  EXPECT_THROW(allocator.allocate(std::size_t{1} << 50U), Error);
  const Tensor x = Tensor::zeros({1000}, DType::f32, kGpu);
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(1000, 0.0F));
}

TEST_F(MemoryOnGpu, HostMemoryMayBeOverwrittenRightAfterTheCopy) {
  std::vector<float> host(1'000'003);
  for (int round = 1; round <= 10; ++round) {
    std::ranges::fill(host, static_cast<float>(round));
    const Tensor x = Tensor::from(host, {static_cast<std::int64_t>(host.size())}, kGpu);
    std::ranges::fill(host, -1.0F);
    const std::vector<float> back = x.to_vector<float>();
    EXPECT_TRUE(
        std::ranges::all_of(back, [round](float v) { return v == static_cast<float>(round); }));
  }
}

TEST_F(MemoryOnGpu, WhoReadsANumberSaysThatItWaitsForTheDevice) {
  const Tensor x = Tensor::from(std::vector<float>{3}, {}, kGpu);
  const BusyUntilWaited busy;
  EXPECT_EQ(x.item(), 3.0);
  EXPECT_TRUE(busy.was_waited_for()) << "dist/watch must not take it for one that computes";
}

TEST_F(MemoryOnGpu, CopiesBetweenTheDevicesKeepEveryByte) {
  for (const std::int64_t n : kSizes) {
    Tensor x = Tensor::empty({n});
    ops::uniform({.stream = {.seed = 3, .sequence = 1}}, x);
    const Tensor copy = x.to(kGpu).clone();
    EXPECT_EQ(copy.to_vector<float>(), x.to_vector<float>());
  }
}

TEST_F(MemoryOnGpu, ProductsOfTwoStreamsHaveTwoWorkspaces) {
  const std::unique_ptr<Stream> other = make_comm_stream(kGpu);
  void* of_compute = cuda::blas_workspace(compute_stream(kGpu));
  EXPECT_NE(cuda::blas_workspace(*other), of_compute);
  EXPECT_EQ(cuda::blas_workspace(compute_stream(kGpu)), of_compute);
}

TEST_F(MemoryOnGpu, ViewsShareTheirMemory) {
  const Tensor x = Tensor::zeros({4, 3}, DType::f32, kGpu);
  Tensor row = x.rows(2, 1);
  ops::fill(5.0, row);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 0, 0, 0, 0, 0, 5, 5, 5, 0, 0, 0}));
}

TEST_F(MemoryOnGpu, EveryGpuSaysWhoItIs) {
  const GpuIdentity identity = gpu_identity(0);
  EXPECT_FALSE(identity.name.empty());
  EXPECT_EQ(identity.uuid.size(), 32U);
}

}  // namespace
}  // namespace brigade
