#include "apps/metrics/intervals.h"

#include <gtest/gtest.h>

namespace brigade::apps {
namespace {

TEST(Intervals, JoinMergesWhatOverlapsOrTouchesAndDropsWhatIsEmpty) {
  const IntervalSet joined = join({{5, 6}, {0, 2}, {1, 3}, {3, 4}, {9, 9}, {8, 7}});
  EXPECT_EQ(joined, (IntervalSet{{0, 4}, {5, 6}}));
}

TEST(Intervals, JoinKeepsAnIntervalThatContainsTheNext) {
  EXPECT_EQ(join({{0, 10}, {2, 3}, {9, 11}}), (IntervalSet{{0, 11}}));
}

TEST(Intervals, IntersectFindsEveryCommonPiece) {
  const IntervalSet a{{0, 4}, {6, 10}};
  const IntervalSet b{{1, 2}, {3, 7}, {9, 12}};
  EXPECT_EQ(intersect(a, b), (IntervalSet{{1, 2}, {3, 4}, {6, 7}, {9, 10}}));
  EXPECT_EQ(intersect(b, a), intersect(a, b));
  EXPECT_TRUE(intersect(a, {}).empty());
}

TEST(Intervals, IntervalsThatOnlyTouchHaveNothingInCommon) {
  EXPECT_TRUE(intersect({{0, 1}}, {{1, 2}}).empty());
}

TEST(Intervals, SubtractCutsHoles) {
  EXPECT_EQ(subtract({{0, 10}}, {{-1, 1}, {2, 3}, {9, 12}}), (IntervalSet{{1, 2}, {3, 9}}));
  EXPECT_EQ(subtract({{0, 2}, {4, 6}}, {{1, 5}}), (IntervalSet{{0, 1}, {5, 6}}));
  EXPECT_TRUE(subtract({{1, 2}}, {{0, 3}}).empty());
}

TEST(Intervals, SubtractAndIntersectDivideTheSet) {
  const IntervalSet a{{0, 4}, {6, 10}, {11, 12}};
  const IntervalSet b{{3, 7}, {8, 9}, {11, 15}};
  EXPECT_DOUBLE_EQ(total_length(subtract(a, b)) + total_length(intersect(a, b)), total_length(a));
}

}  // namespace
}  // namespace brigade::apps
