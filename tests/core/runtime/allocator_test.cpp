#include "core/runtime/allocator.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string_view>
#include <thread>

#include "core/error.h"
#include "core/runtime/context.h"
#include "core/tensor.h"

namespace brigade {
namespace {

/// Lets the process have only so many more bytes of address space.
class RoomFor {
 public:
  explicit RoomFor(std::size_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit limit{pages * static_cast<std::size_t>(getpagesize()) + bytes, before_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
  }
  ~RoomFor() { setrlimit(RLIMIT_AS, &before_); }
  RoomFor(const RoomFor&) = delete;
  RoomFor& operator=(const RoomFor&) = delete;

 private:
  rlimit before_{};
};

TEST(CachingAllocator, AlignsItsBlocks) {
  CachingAllocator allocator(kCpu);
  void* block = allocator.allocate(3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % CachingAllocator::kAlignment, 0U);
  allocator.release(block, 3);
}

TEST(CachingAllocator, GivesNullForNoBytes) {
  CachingAllocator allocator(kCpu);
  EXPECT_EQ(allocator.allocate(0), nullptr);
  allocator.release(nullptr, 0);
  EXPECT_EQ(allocator.stats().system_allocations, 0U);
}

TEST(CachingAllocator, ReusesAReleasedBlockOfTheSameRoundedSize) {
  CachingAllocator allocator(kCpu);
  void* first = allocator.allocate(1000);
  allocator.release(first, 1000);
  void* second = allocator.allocate(1024);
  EXPECT_EQ(second, first);
  EXPECT_EQ(allocator.stats().system_allocations, 1U);
  allocator.release(second, 1024);
}

TEST(CachingAllocator, GivesTwoLiveTensorsDifferentBlocks) {
  CachingAllocator allocator(kCpu);
  void* first = allocator.allocate(256);
  void* second = allocator.allocate(256);
  EXPECT_NE(first, second);
  EXPECT_EQ(allocator.stats().system_allocations, 2U);
  allocator.release(first, 256);
  allocator.release(second, 256);
}

TEST(CachingAllocator, CountsBytesInUseAtPeakAndReserved) {
  CachingAllocator allocator(kCpu);
  void* first = allocator.allocate(256);
  void* second = allocator.allocate(257);  // rounded up to 512
  EXPECT_EQ(allocator.stats().in_use, 768U);
  allocator.release(second, 257);
  EXPECT_EQ(allocator.stats().in_use, 256U);
  EXPECT_EQ(allocator.stats().peak_in_use, 768U);
  EXPECT_EQ(allocator.stats().reserved, 768U);
  allocator.release(first, 256);
}

TEST(CachingAllocator, GivesBackWhatWaitsForReuseWhenMemoryIsShort) {
  if (!std::string_view(BRIGADE_SANITIZE).empty()) {
    GTEST_SKIP() << "a sanitizer reserves address space of its own";
  }
  constexpr std::size_t kBytes = std::size_t{512} << 20U;  // never touched, so no memory
  const RoomFor room(kBytes + kBytes / 2);
  CachingAllocator patient(kCpu);
  patient.release(patient.allocate(kBytes), kBytes);
  void* larger = patient.allocate(kBytes + 1);
  EXPECT_NE(larger, nullptr);
  EXPECT_LT(patient.stats().reserved, 2 * kBytes);
  patient.release(larger, kBytes + 1);
  patient.trim();
}

TEST(CachingAllocator, GivesBackWhatWaitsForReuseWhenSizesChangeForEver) {
  constexpr std::size_t kBytes = CachingAllocator::kFew;  // never touched, so no memory
  CachingAllocator allocator(kCpu);
  for (std::size_t i = 0; i < 10; ++i) {
    const std::size_t bytes = kBytes + i * CachingAllocator::kAlignment;
    allocator.release(allocator.allocate(bytes), bytes);
  }
  EXPECT_LT(allocator.stats().reserved, 4 * kBytes);
  allocator.trim();
}

TEST(CachingAllocator, KeepsAsManyBytesOfASizeAsItMay) {
  CachingAllocator allocator(kCpu);
  allocator.set_spares(1500);
  void* first = allocator.allocate(1024);
  void* second = allocator.allocate(1024);
  void* other = allocator.allocate(512);
  allocator.release(first, 1024);
  allocator.release(second, 1024);  // goes back to the system
  allocator.release(other, 512);
  EXPECT_EQ(allocator.stats().reserved, 1024U + 512U);
  EXPECT_EQ(allocator.allocate(1024), first);
  allocator.release(first, 1024);
}

TEST(CachingAllocator, AllocatesNothingForARepeatedSequenceOfTensors) {
  const auto step = [] {
    const Tensor activation = Tensor::empty({128, 512});
    const Tensor output = Tensor::empty({128, 10});
    const Tensor gradient = Tensor::empty({128, 512});
  };
  step();
  const auto before = Context::current().allocator(kCpu)->stats();
  step();
  step();
  const auto after = Context::current().allocator(kCpu)->stats();
  EXPECT_EQ(after.system_allocations, before.system_allocations);
  EXPECT_EQ(after.in_use, before.in_use);
}

}  // namespace
}  // namespace brigade
