#include "core/recycle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <thread>

#include "core/config.h"

namespace brigade {
namespace {

TEST(Recycle, BlockOfTheSameSizeComesBack) {
  if (kSanitized) {
    GTEST_SKIP() << "a sanitizer is to see every use after the end: nothing is kept";
  }
  void* first = take_block(300);
  give_back_block(first, 300);
  void* same_class = take_block(320);
  EXPECT_EQ(same_class, first);
  void* other = take_block(300);
  EXPECT_NE(other, first) << "that one is in use";
  give_back_block(other, 300);
  give_back_block(same_class, 320);
}

TEST(Recycle, BlocksOfEverySizeAreWholeAndBeginOnACacheLine) {
  for (std::size_t bytes = 1; bytes < 5'000'000; bytes = bytes * 5 / 4 + 1) {
    auto* block = static_cast<unsigned char*>(take_block(bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0U);
    std::fill(block, block + bytes, static_cast<unsigned char>(7));  // ASan knows the end
    give_back_block(block, bytes);
  }
}

TEST(Recycle, BlockMayEndOnAnotherThread) {
  auto number = make_recycled<int>(5);
  std::thread([taken = std::move(number)] { EXPECT_EQ(*taken, 5); }).join();
  RecyclingVector<int> list(1000, 3);
  std::thread([taken = std::move(list)] { EXPECT_EQ(taken.back(), 3); }).join();
}

TEST(Recycle, BlockMayOutliveItsThread) {
  std::shared_ptr<int> number;
  std::thread([&] { number = make_recycled<int>(6); }).join();
  EXPECT_EQ(*number, 6);
}

}  // namespace
}  // namespace brigade
