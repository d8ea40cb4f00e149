#include "core/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "core/ops.h"

namespace brigade {
namespace {

using testing::ElementsAre;

TEST(RandomBits, GiveThePublishedAnswerOfPhilox) {
  // Random123's kat_vectors: philox4x32 10, counter and key all zero.
  constexpr std::array<std::uint32_t, 4> kPublished{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (std::uint64_t position = 0; position < 4; ++position) {
    EXPECT_EQ(random_bits({.seed = 0, .sequence = 0}, position), kPublished[position]);
  }
}

TEST(RandomBits, UseAllBitsOfSeedSequenceAndPosition) {
  // Counter {2, 1, 0x30000007, 0}, key {0x89abcdef, 0x01234567}, from an independent implementation
  // that reproduces all three published vectors.
  constexpr std::array<std::uint32_t, 4> kBlock{0xbf78cf93, 0xa290e883, 0xd6be891f, 0x8ad5f39d};
  constexpr std::uint64_t kFirst = 4 * ((std::uint64_t{1} << 32U) + 2);
  for (std::uint64_t lane = 0; lane < 4; ++lane) {
    EXPECT_EQ(random_bits({.seed = 0x0123456789abcdef, .sequence = 0x30000007}, kFirst + lane),
              kBlock[lane]);
  }
}

TEST(UnitFloat, LiesInTheHalfOpenUnitInterval) {
  EXPECT_EQ(unit_float(0), 0.0F);
  EXPECT_EQ(unit_float(0xffffffff), 1.0F - 0x1p-24F);
  EXPECT_EQ(unit_float(0x80000000), 0.5F);
}

TEST(Uniform, IsAPureFunctionOfThePosition) {
  constexpr RandomStream kStream{.seed = 9, .sequence = 4};
  Tensor x = Tensor::empty({1001});
  ops::uniform({.stream = kStream}, x);
  const auto drawn = x.to_vector<float>();
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    ASSERT_EQ(drawn[i], unit_float(random_bits(kStream, i))) << "element " << i;
  }
}

TEST(Uniform, StartsWithTheSameNumbersWhateverItsLength) {
  Tensor longer = Tensor::empty({100});
  Tensor shorter = Tensor::empty({37});
  ops::uniform({.stream = {.seed = 1, .sequence = 2}, .low = -2, .high = 3}, longer);
  ops::uniform({.stream = {.seed = 1, .sequence = 2}, .low = -2, .high = 3}, shorter);
  EXPECT_EQ(longer.flat_view(0, {37}).to_vector<float>(), shorter.to_vector<float>());
}

TEST(RandomPermutation, ContainsEveryElementOnce) {
  auto order = random_permutation(10'007, {.seed = 1, .sequence = sequences::kShuffle});
  std::sort(order.begin(), order.end());
  std::vector<std::int64_t> all(10'007);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(order, all);
}

TEST(RandomPermutation, IsFixedForAllTimes) {
  // A change would silently change every published training curve.
  EXPECT_THAT(random_permutation(8, {.seed = 7, .sequence = sequences::kShuffle}),
              ElementsAre(2, 7, 5, 1, 0, 3, 4, 6));
}

TEST(RandomPermutation, DiffersBySeedAndSequence) {
  const auto order = random_permutation(100, {.seed = 1, .sequence = 0});
  EXPECT_NE(order, random_permutation(100, {.seed = 2, .sequence = 0}));
  EXPECT_NE(order, random_permutation(100, {.seed = 1, .sequence = 1}));
}

TEST(RandomPermutation, PutsEveryElementAtEveryPlaceEquallyOften) {
  constexpr std::size_t kElements = 5;
  constexpr std::uint32_t kTries = 10'000;
  std::array<std::array<int, kElements>, kElements> count{};
  for (std::uint32_t sequence = 0; sequence < kTries; ++sequence) {
    const auto order = random_permutation(kElements, {.seed = 3, .sequence = sequence});
    for (std::size_t place = 0; place < kElements; ++place) {
      ++count[place][static_cast<std::size_t>(order[place])];
    }
  }
  for (const auto& row : count) {
    EXPECT_THAT(row, testing::Each(testing::AllOf(testing::Gt(1800), testing::Lt(2200))));
  }
}

TEST(RandomPermutation, MayBeEmpty) {
  EXPECT_THAT(random_permutation(0, {.seed = 1, .sequence = 1}), testing::IsEmpty());
  EXPECT_THAT(random_permutation(1, {.seed = 1, .sequence = 1}), ElementsAre(0));
}

}  // namespace
}  // namespace brigade
