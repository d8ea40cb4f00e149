#include "core/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace brigade {
namespace {

TEST(Shape, CountsItsElements) {
  EXPECT_EQ((Shape{2, 3, 4, 5}).numel(), 120);
  EXPECT_EQ((Shape{7}).numel(), 7);
}

TEST(Shape, IsAScalarWithOneElementByDefault) {
  EXPECT_EQ(Shape{}.rank(), 0U);
  EXPECT_EQ(Shape{}.numel(), 1);
}

TEST(Shape, HasNoElementsWhenAnExtentIsZero) {
  EXPECT_EQ((Shape{0, 512}).numel(), 0);
}

TEST(Shape, DiffersByRankAndByExtent) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{6}), (Shape{6, 1}));
  EXPECT_NE((Shape{}), (Shape{1}));
}

TEST(Shape, PrintsAsAList) {
  EXPECT_EQ(fmt::format("{}", Shape{32, 500}), "[32, 500]");
  EXPECT_EQ(fmt::format("{}", Shape{}), "[]");
}

TEST(Shape, ReplacesTheNumberOfRowsOnly) {
  EXPECT_EQ((Shape{60000, 28, 28}).with_extent(0, 128), (Shape{128, 28, 28}));
}

TEST(Shape, RefusesToReplaceTheRowsOfAScalar) {
  EXPECT_ERROR(static_cast<void>(Shape{}.with_extent(0, 1)), "shape: dimension 0 asked of []");
}

TEST(Shape, RefusesFiveDimensions) {
  EXPECT_ERROR((Shape{1, 2, 3, 4, 5}), "shape: expected at most 4 dimensions, got 5");
}

TEST(Shape, RefusesANegativeExtent) {
  EXPECT_ERROR((Shape{4, -1}), "shape: negative extent -1 in dimension 1");
}

TEST(Shape, RefusesMoreElementsThanCanBeCounted) {
  constexpr std::int64_t kMany = std::int64_t{1} << 40U;
  EXPECT_ERROR((Shape{kMany, kMany}), "shape: more than 2^58 elements in the first 2 dimensions");
  EXPECT_ERROR((Shape{0, kMany, kMany}),
               "shape: more than 2^58 elements in the first 3 dimensions");
  EXPECT_EQ((Shape{kMany, 1 << 18}).numel(), std::int64_t{1} << 58U);
}

TEST(Shape, RefusesADimensionItDoesNotHave) {
  EXPECT_ERROR(static_cast<void>((Shape{4, 5})[2]), "shape: dimension 2 asked of [4, 5]");
}

TEST(Shape, ReplacesOneExtent) {
  EXPECT_EQ((Shape{2, 3, 4}.with_extent(1, 0)), (Shape{2, 0, 4}));
  EXPECT_ERROR((Shape{2, 3}.with_extent(2, 1)), "shape: dimension 2 asked of [2, 3]");
}

}  // namespace
}  // namespace brigade
