#include "dist/ddp/bucket_plan.h"

#include <gmock/gmock.h>

#include "tests/support/expect_error.h"

namespace brigade::dist {
namespace {

using Order = std::vector<std::size_t>;

BucketPlan plan(const std::vector<std::size_t>& bytes, std::size_t cap) {
  return assign_buckets(bytes, cap);
}

/// f32 parameters, the last registered first.
BucketPlan plan(const std::vector<std::size_t>& bytes, const BucketPolicy& policy) {
  std::vector<PlanParameter> parameters;
  for (const std::size_t one : bytes) {
    parameters.push_back({.bytes = one, .layer = parameters.size()});
  }
  return assign_buckets(parameters, expected_order(parameters), policy);
}

TEST(ExpectedOrder, IsTheLastLayerFirstAndItsWeightBeforeItsBias) {
  std::vector<PlanParameter> parameters(6);
  const std::size_t layers[] = {0, 0, 2, 3, 3, 0};  // the last one was registered late
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].layer = layers[i];
  }
  EXPECT_EQ(expected_order(parameters), (Order{3, 4, 2, 0, 1, 5}));
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

TEST(BucketsBySize, TheFirstHasItsOwnCap) {
  const BucketPolicy policy{.cap_bytes = 30, .first_cap_bytes = 10};
  EXPECT_EQ(plan({10, 10, 10, 10, 10}, policy), (BucketPlan{{4}, {3, 2, 1}, {0}}));
  EXPECT_EQ(plan({10, 10, 40}, policy), (BucketPlan{{2}, {1, 0}})) << "larger than both caps";
  EXPECT_EQ(plan({10, 10, 10, 10, 10}, {.cap_bytes = 10, .first_cap_bytes = 30}),
            (BucketPlan{{4, 3, 2}, {1}, {0}}));
}

TEST(BucketsBySize, TheLastHasItsOwnCapAndIsCutFromTheEnd) {
  const BucketPolicy policy{.cap_bytes = 30, .last_cap_bytes = 10};
  EXPECT_EQ(plan({10, 10, 10, 10, 10}, policy), (BucketPlan{{4, 3, 2}, {1}, {0}}));
  EXPECT_EQ(plan({10, 10, 10, 10}, policy), (BucketPlan{{3, 2, 1}, {0}}))
      << "without its own cap it would be {0}, too";
  EXPECT_EQ(plan({4, 6, 10, 10, 10}, policy), (BucketPlan{{4, 3, 2}, {1, 0}})) << "an exact fit";
  EXPECT_EQ(plan({4, 7, 10, 10}, policy), (BucketPlan{{3, 2, 1}, {0}}));
  EXPECT_EQ(plan({50, 5, 10}, policy), (BucketPlan{{2, 1}, {0}}))
      << "a last tensor larger than any cap is the last bucket, alone";
  EXPECT_EQ(plan({4, 4}, policy), (BucketPlan{{1, 0}})) << "all of it fits into the last";
  EXPECT_EQ(plan({4, 4}, {.cap_bytes = 30, .last_cap_bytes = 0}), (BucketPlan{{1}, {0}}));
}

TEST(BucketsBySize, FirstAndLastCapsWorkTogether) {
  const BucketPolicy policy{.cap_bytes = 20, .first_cap_bytes = 10, .last_cap_bytes = 10};
  EXPECT_EQ(plan({10, 10, 10, 10}, policy), (BucketPlan{{3}, {2, 1}, {0}}));
  EXPECT_EQ(plan({10}, policy), (BucketPlan{{0}})) << "first and last at once";
}

TEST(BucketsByLayer, GroupWhatBelongsToALayer) {
  const std::vector<PlanParameter> parameters{{.bytes = 9, .layer = 0},
                                              {.bytes = 1, .layer = 0},
                                              {.bytes = 9, .layer = 2},
                                              {.bytes = 1, .layer = 2}};
  const BucketPolicy policy{.by = BucketBy::layer, .cap_bytes = 0};
  EXPECT_EQ(assign_buckets(parameters, Order{3, 2, 1, 0}, policy), (BucketPlan{{3, 2}, {1, 0}}));
  EXPECT_EQ(assign_buckets(parameters, Order{2, 3, 0, 1}, policy), (BucketPlan{{2, 3}, {0, 1}}));
  EXPECT_EQ(assign_buckets(parameters, Order{1, 3, 2, 0}, policy), (BucketPlan{{3, 2}, {1, 0}}))
      << "layer 0 began first, but layer 2 is complete first and must not wait for it";
}

TEST(BucketsByParameter, HoldOneEach) {
  EXPECT_EQ(plan({4, 4, 4}, {.cap_bytes = 0}), (BucketPlan{{2}, {1}, {0}}));
}

TEST(Buckets, NeverMixDtypes) {
  const std::vector<PlanParameter> mixed{{.bytes = 10, .dtype = DType::f32, .layer = 0},
                                         {.bytes = 10, .dtype = DType::f64, .layer = 0},
                                         {.bytes = 10, .dtype = DType::f32, .layer = 2},
                                         {.bytes = 10, .dtype = DType::f64, .layer = 2}};
  const Order order{3, 2, 1, 0};
  EXPECT_EQ(assign_buckets(mixed, order, {.cap_bytes = 100}), (BucketPlan{{3, 1}, {2, 0}}))
      << "one open bucket per dtype: the f64 one is full a parameter earlier";
  EXPECT_EQ(assign_buckets(mixed, order, {.cap_bytes = 15}), (BucketPlan{{3}, {2}, {1}, {0}}));
  EXPECT_EQ(assign_buckets(mixed, order, {.cap_bytes = 100, .last_cap_bytes = 20}),
            (BucketPlan{{3}, {2}, {1}, {0}}));
  EXPECT_EQ(assign_buckets(mixed, order, {.by = BucketBy::layer}),
            (BucketPlan{{3}, {2}, {1}, {0}}));
}

TEST(Buckets, FollowTheOrderTheyAreGiven) {
  const std::vector<PlanParameter> four(4, {.bytes = 10});
  EXPECT_EQ(assign_buckets(four, Order{0, 3, 1, 2}, {.cap_bytes = 20}),
            (BucketPlan{{0, 3}, {1, 2}}));
}

TEST(Buckets, RefuseAnOrderThatIsNone) {
  const std::vector<PlanParameter> two(2, {.bytes = 10});
  EXPECT_ERROR(assign_buckets(two, Order{0, 0}, {}),
               "buckets: expected every parameter number below 2 once in the order, got 0 again or "
               "beyond");
  EXPECT_ERROR(assign_buckets(two, Order{2, 0}, {}),
               "buckets: expected every parameter number below 2 once in the order, got 2 again or "
               "beyond");
  EXPECT_ERROR(assign_buckets(two, Order{1}, {}),
               "buckets: expected an order of 2 parameters, got 1");
}

TEST(SameBuckets, LookAtTheBucketsNotAtTheOrderInside) {
  EXPECT_TRUE(same_buckets({{3, 2}, {1, 0}}, {{2, 3}, {0, 1}}));
  EXPECT_FALSE(same_buckets({{3, 2}, {1, 0}}, {{1, 0}, {3, 2}})) << "they leave in another order";
  EXPECT_FALSE(same_buckets({{3, 2}, {1, 0}}, {{3, 2, 1}, {0}}));
}

TEST(BucketPolicy, SaysWhatCounts) {
  EXPECT_EQ(to_string(BucketPolicy{.cap_bytes = 10}), "size, at most 10 bytes");
  EXPECT_EQ(to_string(BucketPolicy{.cap_bytes = 10, .first_cap_bytes = 1, .last_cap_bytes = 2}),
            "size, at most 10 bytes, first 1, last 2");
  EXPECT_EQ(to_string(BucketPolicy{.by = BucketBy::layer}), "layer");
}

}  // namespace
}  // namespace brigade::dist
