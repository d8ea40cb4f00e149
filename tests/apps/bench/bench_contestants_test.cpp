#include "apps/bench/bench_contestants.h"

#include <gtest/gtest.h>

#include <limits>

namespace brigade::apps {
namespace {

/// What two ranks' numbers add up to: i % 251 and i % 251 + 1.
template <class T>
std::vector<T> sums_of_two_ranks(std::int64_t count) {
  std::vector<T> sums;
  for (std::int64_t i = 0; i < count; ++i) {
    sums.push_back(static_cast<T>(2 * (i % 251) + 1));
  }
  return sums;
}

template <class T>
std::int64_t wrong_with(std::size_t index, T value) {
  std::vector<T> sums = sums_of_two_ranks<T>(600);
  sums[index] = value;
  return count_wrong_sums(Tensor::from(sums, {600}, kCpu), 2);
}

TEST(BenchCheck, SeesASingleWrongElementWhereverItIs) {
  EXPECT_EQ(wrong_with<float>(0, 1.0F), 0) << "that is right";
  EXPECT_EQ(wrong_with<float>(0, 0.0F), 1);
  EXPECT_EQ(wrong_with<float>(599, 0.0F), 1);
  EXPECT_EQ(wrong_with<float>(300, std::numeric_limits<float>::quiet_NaN()), 1);
  EXPECT_EQ(wrong_with<double>(300, 99.0), 0) << "2 (300 - 251) + 1";
  EXPECT_EQ(wrong_with<double>(300, 99.0 + 1e-12), 1);
}

TEST(BenchCheck, SeesSumsOverTooFewRanks) {
  const Tensor sums = Tensor::from(sums_of_two_ranks<float>(600), {600}, kCpu);
  EXPECT_EQ(count_wrong_sums(sums, 2), 0);
  EXPECT_EQ(count_wrong_sums(sums, 3), 600);
}

}  // namespace
}  // namespace brigade::apps
