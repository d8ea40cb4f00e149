#include "apps/plan/all_reduce_cost.h"

#include <gtest/gtest.h>

namespace brigade::apps {
namespace {

constexpr double kBytes = 1e6;

/// 1 ms per message and 1000 bytes per ms.
Cluster flat_cluster() {
  const MessageCost link =
      message_cost(dist::LinkModel{.alpha_us = 1000.0, .gigabytes_per_s = 1e-3});
  return {.between_hosts = link, .inside_host = link};
}

double ms(const Cluster& cluster, const std::string& algorithm, int ranks, double bytes) {
  return all_reduce_cost(cluster, algorithm, ranks, bytes).ms;
}

TEST(AllReduceCost, IsTheFormulaOfTheAlgorithm) {
  const Cluster cluster = flat_cluster();
  EXPECT_DOUBLE_EQ(ms(cluster, "ring", 4, 4000.0), 6 * 1.0 + 6 * 1.0);
  EXPECT_DOUBLE_EQ(ms(cluster, "halving", 4, 4000.0), 4 * 1.0 + 6 * 1.0);
  // Two of six hand everything to a neighbour and get it back.
  EXPECT_DOUBLE_EQ(ms(cluster, "halving", 6, 4000.0), 4 * 1.0 + 6 * 1.0 + 2 * (1.0 + 4.0));
  EXPECT_DOUBLE_EQ(ms(cluster, "tree", 4, 4000.0), 2 * 2 * (1.0 + 8.0));  // one segment
  EXPECT_DOUBLE_EQ(ms(cluster, "tree", 7, 4000.0), 2 * 2 * (1.0 + 8.0));
  EXPECT_DOUBLE_EQ(ms(cluster, "tree", 8, 4000.0), 2 * 3 * (1.0 + 8.0));
  EXPECT_DOUBLE_EQ(ms(cluster, "tree", 2, 4000.0), 2 * (1.0 + 4.0)) << "one child";
  const double segment = 256.0 * 1024.0;
  EXPECT_DOUBLE_EQ(ms(cluster, "tree", 4, 3 * segment), 2 * 4 * (1.0 + 2 * segment / 1000.0));
  for (const std::string& algorithm : costed_algorithms()) {
    EXPECT_EQ(ms(cluster, algorithm, 1, kBytes), 0.0) << algorithm;
    EXPECT_GT(ms(cluster, algorithm, 2, kBytes), kBytes / 1000.0) << algorithm;
  }
}

TEST(AllReduceCost, HostsOfSeveralRanksHaveTwoKindsOfLinks) {
  Cluster cluster = flat_cluster();
  cluster.inside_host = message_cost(dist::LinkModel{.alpha_us = 100.0, .gigabytes_per_s = 1e-2});
  cluster.ranks_per_host = 2;
  // On one host; on four hosts, whose links are the slow ones.
  EXPECT_DOUBLE_EQ(ms(cluster, "ring", 2, 4000.0), 2 * (0.1 + 0.2));
  EXPECT_DOUBLE_EQ(ms(cluster, "ring", 8, 4000.0), 14 * (1.0 + 0.5));
  EXPECT_DOUBLE_EQ(ms(cluster, "hierarchical", 2, 4000.0), 2 * (0.1 + 0.2));
  EXPECT_DOUBLE_EQ(ms(cluster, "hierarchical", 8, 4000.0), 2 * (0.1 + 0.2) + 6 * (1.0 + 1.0));
}

TEST(AllReduceCost, OfAMeasuredLinkIsWhatWasMeasured) {
  const dist::LinkTimes measured({{1000.0, 4.0, 1.0}, {4000.0, 10.0, 2.0}, {16000.0, 22.0, 8.0}});
  const MessageCost message = message_cost(measured, 4);
  const Cluster cluster{.between_hosts = message, .inside_host = message};
  for (const dist::LinkPoint& point : measured.points()) {
    const CollectiveCost cost = all_reduce_cost(cluster, "ring", 4, point.bytes);
    EXPECT_DOUBLE_EQ(cost.ms, point.ms);
    EXPECT_DOUBLE_EQ(cost.cpu_ms, point.cpu_ms);
  }
  // 14 messages of 1000 bytes; on four ranks 6 of them took 10 ms.
  EXPECT_DOUBLE_EQ(ms(cluster, "ring", 8, 8000.0), 14.0 / 6.0 * 10.0);
}

}  // namespace
}  // namespace brigade::apps
