#include "dist/planning/best_buckets.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <random>

#include "dist/planning/link_times.h"

namespace brigade::dist {
namespace {

using testing::ElementsAre;

/// A latency of 1 ms and 1000 bytes per ms.
double plain_link(std::size_t bytes) {
  return 1.0 + static_cast<double>(bytes) / 1000.0;
}

std::vector<PlanParameter> of_bytes(const std::vector<std::size_t>& bytes) {
  std::vector<PlanParameter> parameters;
  for (const std::size_t each : bytes) {
    parameters.push_back({.bytes = each});
  }
  return parameters;
}

TEST(LastArrival, FollowsTheRecurrence) {
  const auto parameters = of_bytes({1000, 2000, 3000});
  const std::vector<GradientReady> order{{2, 1.0}, {1, 2.0}, {0, 9.0}};
  // ready 1 + 4, then ready 2 but begun at 5: + 3, then ready 9: + 2
  EXPECT_DOUBLE_EQ(last_arrival_ms(parameters, order, {{2}, {1}, {0}}, plain_link), 11.0);
  EXPECT_DOUBLE_EQ(last_arrival_ms(parameters, order, {{2, 1, 0}}, plain_link), 16.0);
}

TEST(BestBuckets, TheLastBucketIsSmallWhereTheNetworkKeepsUp) {
  const auto parameters = of_bytes({100, 1000, 1000, 1000});
  const std::vector<GradientReady> order{{3, 10.0}, {2, 20.0}, {1, 30.0}, {0, 40.0}};
  // 3, 2 and 1 arrive before 40 even together; alone, 0 arrives at 41.1
  EXPECT_THAT(best_buckets(parameters, order, plain_link, 0.0),
              ElementsAre(ElementsAre(3, 2, 1), ElementsAre(0)));
}

TEST(BestBuckets, GrowWhereTheNetworkIsSlow) {
  const auto parameters = of_bytes(std::vector<std::size_t>(8, 1000));
  std::vector<GradientReady> order;
  for (std::size_t i = 0; i < 8; ++i) {
    order.push_back({i, 0.1 * static_cast<double>(i)});
  }
  // Together they are ready at 0.7 and arrive 9 ms later; two buckets pay the latency twice and
  // begin at most 0.7 ms sooner.
  EXPECT_THAT(best_buckets(parameters, order, plain_link, 0.0), testing::SizeIs(1));
  order.back().ms = 5.0;
  EXPECT_THAT(best_buckets(parameters, order, plain_link, 0.0), testing::SizeIs(2));
}

TEST(BestBuckets, AreFewerWhereThatCostsLittle) {
  const auto parameters = of_bytes({100, 3000, 3000});
  const std::vector<GradientReady> order{{2, 10.0}, {1, 13.8}, {0, 20.0}};
  // The last arrives at 21.1, 21.9 or 27.1.
  EXPECT_THAT(best_buckets(parameters, order, plain_link, 0.0), testing::SizeIs(3));
  EXPECT_THAT(best_buckets(parameters, order, plain_link, 0.05), testing::SizeIs(2));
  EXPECT_THAT(best_buckets(parameters, order, plain_link, 0.5), testing::SizeIs(1));
}

TEST(BestBuckets, HaveOneDtypeEach) {
  std::vector<PlanParameter> parameters = of_bytes({8, 8, 8});
  parameters[1].dtype = DType::f64;
  const std::vector<GradientReady> order{{0, 0.0}, {1, 0.0}, {2, 0.0}};
  EXPECT_THAT(best_buckets(parameters, order, plain_link, 1.0),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
}

TEST(BestBuckets, OfNothingAreNone) {
  EXPECT_THAT(best_buckets({}, {}, plain_link, 0.01), testing::IsEmpty());
}

/// Every way to cut `order` into contiguous pieces.
double earliest_of_all_plans(const std::vector<PlanParameter>& parameters,
                             const std::vector<GradientReady>& order) {
  double earliest = std::numeric_limits<double>::max();
  for (std::size_t cuts = 0; cuts < std::size_t{1} << (order.size() - 1); ++cuts) {
    BucketPlan plan(1);
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0 && (cuts >> (i - 1) & 1U) != 0) {
        plan.emplace_back();
      }
      plan.back().push_back(order[i].parameter);
    }
    earliest = std::min(earliest, last_arrival_ms(parameters, order, plan, plain_link));
  }
  return earliest;
}

TEST(BestBuckets, NoPlanIsBetter) {
  std::mt19937 random(7);
  for (int times = 0; times < 200; ++times) {
    std::vector<std::size_t> bytes(9);
    std::vector<GradientReady> order;
    double now = 0.0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = random() % 4000;
      now += static_cast<double>(random() % 3000) / 1000.0;
      order.push_back({bytes.size() - 1 - i, now});
    }
    const auto parameters = of_bytes(bytes);
    const BucketPlan plan = best_buckets(parameters, order, plain_link, 0.0);
    EXPECT_NEAR(last_arrival_ms(parameters, order, plan, plain_link),
                earliest_of_all_plans(parameters, order), 1e-9);
  }
}

TEST(LinkTimes, AreInterpolated) {
  const LinkTimes link({{100, 1.0}, {300, 2.0}, {400, 4.0}});
  EXPECT_DOUBLE_EQ(link.ms(0), 1.0);
  EXPECT_DOUBLE_EQ(link.ms(200), 1.5);
  EXPECT_DOUBLE_EQ(link.ms(300), 2.0);
  EXPECT_DOUBLE_EQ(link.ms(350), 3.0);
  EXPECT_DOUBLE_EQ(link.ms(500), 6.0);
  EXPECT_DOUBLE_EQ(LinkTimes({{100, 1.0}}).ms(5000), 1.0);
}

TEST(LinkTimes, NeverFall) {
  const LinkTimes noisy({{100.0, 2.0, 0.0}, {200.0, 1.0, 0.0}});
  EXPECT_DOUBLE_EQ(noisy.ms(150.0), 2.0);
  EXPECT_DOUBLE_EQ(noisy.ms(1e6), 2.0);
}

}  // namespace
}  // namespace brigade::dist
