#include "core/runtime/recycle.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

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

TEST(Recycle, BlocksTakenInTurnLieInTurn) {
  if (kSanitized) {
    GTEST_SKIP() << "every block is the system's";
  }
  constexpr std::size_t kBytes = 448;  // seven cache lines, which nothing else here takes
  constexpr std::size_t kCount = 10'000;
  std::vector<unsigned char*> blocks(kCount);
  for (unsigned char*& block : blocks) {
    block = static_cast<unsigned char*>(take_block(kBytes));
  }
  std::size_t neighbours = 0;
  for (std::size_t i = 1; i < kCount; ++i) {
    neighbours += blocks[i] == blocks[i - 1] + kBytes ? 1U : 0U;
  }
  EXPECT_GT(neighbours, kCount - 20) << "a new slab is due 9 times";
  for (std::size_t i = kCount; i > 0; --i) {  // as backward gives back the nodes of forward
    give_back_block(blocks[i - 1], kBytes);
  }
  EXPECT_EQ(take_block(kBytes), blocks[0]);
  EXPECT_EQ(take_block(kBytes), blocks[1]);
  give_back_block(blocks[1], kBytes);
  give_back_block(blocks[0], kBytes);
}

TEST(Recycle, AThreadTakesWhatAnEndedOneLeft) {
  if (kSanitized) {
    GTEST_SKIP() << "every block is the system's";
  }
  constexpr std::size_t kBytes = 576;
  const auto take_and_end = [] {
    void* taken = nullptr;
    std::thread([&taken] {
      taken = take_block(kBytes);
      give_back_block(taken, kBytes);
    }).join();
    return taken;
  };
  void* first = take_and_end();
  EXPECT_EQ(take_and_end(), first);
}

TEST(Recycle, NoMoreThan64MiBOfASizeAreKept) {
  if (kSanitized) {
    GTEST_SKIP() << "nothing is kept";
  }
  constexpr std::size_t kBytes = std::size_t{32} << 20U;  // malloc maps these, whatever came before
  std::vector<void*> blocks(3);
  for (void*& block : blocks) {
    block = take_block(kBytes);
  }
  const std::size_t all = mallinfo2().hblkhd;  // bytes that malloc has from the system directly
  for (void* block : blocks) {
    give_back_block(block, kBytes);
  }
  EXPECT_GE(all - mallinfo2().hblkhd, kBytes);
  EXPECT_LT(all - mallinfo2().hblkhd, 2 * kBytes);
}

TEST(Recycle, BlocksOfEverySizeAreWholeAndBeginOnACacheLine) {
  for (std::size_t bytes = 0; bytes < 5'000'000; bytes = bytes * 5 / 4 + 1) {
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
