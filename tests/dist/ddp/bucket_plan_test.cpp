#include "dist/ddp/bucket_plan.h"

#include <gmock/gmock.h>

namespace brigade::dist {
namespace {

using Order = std::vector<std::size_t>;

BucketPlan plan(const std::vector<std::size_t>& bytes, std::size_t cap) {
  return assign_buckets(bytes, cap);
}

TEST(ExpectedOrder, IsTheLastLayerFirstAndItsWeightBeforeItsBias) {
  std::vector<PlanParameter> parameters;
  for (const char* name : {"0.weight", "0.bias", "scale", "block.2.weight", "block.2.bias",
                           "block.3.weight", "", ""}) {
    parameters.push_back({.name = name});
  }
  EXPECT_EQ(expected_order(parameters), (Order{7, 6, 5, 3, 4, 2, 0, 1}));
}

TEST(BucketsBySize, WalkParametersInReverse) {
  EXPECT_EQ(plan({10, 10, 10}, 100), (BucketPlan{{2, 1, 0}}));
}

TEST(BucketsBySize, CloseBeforeTheParameterThatWouldPassTheCap) {
  EXPECT_EQ(plan({10, 10, 10, 10}, 25), (BucketPlan{{3, 2}, {1, 0}}));
  EXPECT_EQ(plan({10, 10, 10, 10}, 19), (BucketPlan{{3}, {2}, {1}, {0}}));
}

TEST(BucketsBySize, LetAnExactFitIn) {
  EXPECT_EQ(plan({10, 15, 10}, 25), (BucketPlan{{2, 1}, {0}}));
  EXPECT_EQ(plan({10, 15, 10}, 24), (BucketPlan{{2}, {1}, {0}}));
}

TEST(BucketsBySize, GiveATensorLargerThanTheCapABucketOfItsOwn) {
  EXPECT_EQ(plan({5, 100, 5}, 20), (BucketPlan{{2}, {1}, {0}}));
  EXPECT_EQ(plan({5, 5, 100}, 20), (BucketPlan{{2}, {1, 0}}));
}

TEST(BucketsBySize, KeepTheTail) {
  EXPECT_EQ(plan({1, 20, 20}, 20), (BucketPlan{{2}, {1}, {0}}));
}

TEST(BucketsBySize, CapZeroMeansOneParameterEach) {
  EXPECT_EQ(plan({4, 4, 4}, 0), (BucketPlan{{2}, {1}, {0}}));
}

TEST(BucketsBySize, OfNothingAreNone) {
  EXPECT_TRUE(plan({}, 25).empty());
}

TEST(Buckets, NeverMixDtypes) {
  const std::vector<PlanParameter> mixed{{.bytes = 10, .dtype = DType::f32},
                                         {.bytes = 10, .dtype = DType::f64},
                                         {.bytes = 10, .dtype = DType::f32},
                                         {.bytes = 10, .dtype = DType::f64}};
  const Order order{3, 2, 1, 0};
  EXPECT_EQ(assign_buckets(mixed, order, 100), (BucketPlan{{3, 1}, {2, 0}}))
      << "one open bucket per dtype: the f64 one is full a parameter earlier";
  EXPECT_EQ(assign_buckets(mixed, order, 15), (BucketPlan{{3}, {2}, {1}, {0}}));
}

TEST(Buckets, FollowTheOrderTheyAreGiven) {
  const std::vector<PlanParameter> four(4, {.bytes = 10});
  EXPECT_EQ(assign_buckets(four, Order{0, 3, 1, 2}, 20), (BucketPlan{{0, 3}, {1, 2}}));
}

TEST(SameBuckets, LookAtTheBucketsNotAtTheOrderInside) {
  EXPECT_TRUE(same_buckets({{3, 2}, {1, 0}}, {{2, 3}, {0, 1}}));
  EXPECT_FALSE(same_buckets({{3, 2}, {1, 0}}, {{1, 0}, {3, 2}})) << "they leave in another order";
  EXPECT_FALSE(same_buckets({{3, 2}, {1, 0}}, {{3, 2, 1}, {0}}));
}

}  // namespace
}  // namespace brigade::dist
