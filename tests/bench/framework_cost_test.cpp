#include "tests/bench/framework_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "dist/overlap/order_of_need.h"

namespace brigade::bench {
namespace {

constexpr std::size_t kSmall = 1'000;
constexpr std::size_t kLarge = 100'000;
/// How the cost per node may grow from 1,000 to 100,000 nodes. 100,000 do not fit into a cache: per
/// node a few lines come from memory instead, which costs up to twice as much where there is much
/// to do (FRAMEWORK.md has the figures), and more where neighbours use the memory too. n √n costs
/// 10 times as much, something quadratic 100 times.
constexpr double kMostGrowth = 6.0;
/// Where there is next to nothing to do per node, memory is all of it: up to 4 times as much.
constexpr double kMostGrowthOfLittle = 12.0;

struct Growth {
  double small = 0.0;  ///< ns per node
  double large = 0.0;
  double factor() const { return large / small; }
};

/// The median of several rounds, in each of which both sizes are measured one after the other.
Growth median_growth(const std::function<void()>& run_small, const std::function<void()>& run_large,
                     std::size_t small = kSmall, std::size_t large = kLarge) {
  constexpr std::size_t kRounds = 3;
  std::vector<Growth> rounds;
  for (std::size_t round = 0; round < kRounds; ++round) {
    rounds.push_back({ns_per_node(small, run_small), ns_per_node(large, run_large)});
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end(),
                   [](const Growth& a, const Growth& b) { return a.factor() < b.factor(); });
  return rounds[kRounds / 2];
}

void expect_linear(const char* what, const Growth& growth, double most = kMostGrowth) {
  std::printf("%s: %.0f ns per node, %.0f in a model many times larger\n", what, growth.small,
              growth.large);
  EXPECT_LT(growth.factor(), most);
}

TEST(FrameworkCost, EngineIsLinearInTheNumberOfNodes) {
  EngineChain small(kSmall);
  EngineChain large(kLarge);
  expect_linear("graph, backward, callbacks",
                median_growth([&] { small.run(); }, [&] { large.run(); }));
  EXPECT_EQ(large.callbacks() % kLarge, 0U);
  EXPECT_GT(large.callbacks(), 0U);
}

TEST(FrameworkCost, NarrowNetworkIsLinearInItsDepth) {
  NarrowNetwork small(10);
  NarrowNetwork large(1000);
  expect_linear("Linear layer of width 1",
                median_growth([&] { small.run(); }, [&] { large.run(); }, 10, 1000));
}

TEST(FrameworkCost, BucketAssignmentIsLinearInTheNumberOfParameters) {
  expect_linear("bucket assignment", median_growth([] { static_cast<void>(plan_of(kSmall)); },
                                                   [] { static_cast<void>(plan_of(kLarge)); }));
}

TEST(FrameworkCost, OrderOfNeedIsLinearInTheNumberOfBuckets) {
  const auto order_of = [](std::size_t count) {
    std::vector<dist::BucketTimes> buckets(count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto ready = static_cast<double>(i);
      buckets[i] = {.ready_ms = ready, .first_parameter = count - i, .chunk_ms = {1.5}};
    }
    return [buckets] { static_cast<void>(dist::in_order_of_need(buckets)); };
  };
  expect_linear("order of need", median_growth(order_of(kSmall), order_of(kLarge)));
}

TEST(FrameworkCost, WrappingIsLinearInTheNumberOfParameters) {
  expect_linear("making parameters and a DataParallel",
                median_growth([] { WrappedParameters parameters(kSmall); },
                              [] { WrappedParameters parameters(kLarge); }));
}

TEST(FrameworkCost, ReducerIsLinearInTheNumberOfParameters) {
  WrappedParameters small(kSmall);
  WrappedParameters large(kLarge);
  EXPECT_EQ(small.buckets(), 3U);
  EXPECT_EQ(large.buckets(), 250U);
  expect_linear("reducer", median_growth([&] { small.report_all(); }, [&] { large.report_all(); }),
                kMostGrowthOfLittle);
}

}  // namespace
}  // namespace brigade::bench
