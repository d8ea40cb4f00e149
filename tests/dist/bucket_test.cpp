#include "dist/bucket.h"

#include <gmock/gmock.h>

#include "tests/support/small_model.h"

namespace brigade::dist {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

BucketPlan plan(std::vector<std::size_t> bytes, std::size_t cap) {
  return assign_buckets(bytes, cap);
}

TEST(AssignBuckets, WalksParametersInReverse) {
  EXPECT_THAT(plan({10, 10, 10}, 100), ElementsAre(ElementsAre(2, 1, 0)));
}

TEST(AssignBuckets, ClosesBeforeTheParameterThatWouldPassTheCap) {
  EXPECT_THAT(plan({10, 10, 10, 10}, 25), ElementsAre(ElementsAre(3, 2), ElementsAre(1, 0)));
}

TEST(AssignBuckets, LetsAnExactFitIn) {
  EXPECT_THAT(plan({10, 15, 10}, 25), ElementsAre(ElementsAre(2, 1), ElementsAre(0)));
}

TEST(AssignBuckets, GivesATensorLargerThanTheCapABucketOfItsOwn) {
  EXPECT_THAT(plan({5, 100, 5}, 20), ElementsAre(ElementsAre(2), ElementsAre(1), ElementsAre(0)));
}

TEST(AssignBuckets, KeepsTheTail) {
  EXPECT_THAT(plan({1, 20, 20}, 20), ElementsAre(ElementsAre(2), ElementsAre(1), ElementsAre(0)));
}

TEST(AssignBuckets, CapZeroMeansOneParameterEach) {
  EXPECT_THAT(plan({4, 4, 4}, 0), ElementsAre(ElementsAre(2), ElementsAre(1), ElementsAre(0)));
}

TEST(AssignBuckets, OfNothingIsNothing) {
  EXPECT_TRUE(plan({}, 25).empty());
}

TEST(MakeBuckets, KeepsValuesAndMakesGradientsSlices) {
  const auto model = test::make_mlp({3, 5, 2});
  const std::vector<autograd::Variable> parameters = model->parameters();
  std::vector<std::vector<float>> before;
  for (const autograd::Variable& parameter : parameters) {
    before.push_back(parameter.data().to_vector<float>());
  }
  const std::vector<Bucket> buckets = make_buckets(parameters, {{3, 2, 1, 0}});
  ASSERT_EQ(buckets.size(), 1U);
  std::size_t expected_offset = 0;
  for (const std::size_t i : buckets[0].members) {
    EXPECT_EQ(parameters[i].data().to_vector<float>(), before[i]) << parameters[i].name();
    EXPECT_TRUE(parameters[i].data().same_storage(buckets[0].data));
    EXPECT_TRUE(parameters[i].grad_state()->grad.same_storage(buckets[0].grads));
    EXPECT_EQ(parameters[i].grad_state()->grad.byte_offset(), expected_offset);
    EXPECT_EQ(parameters[i].data().byte_offset(), expected_offset);
    expected_offset += slice_bytes(parameters[i].data());
  }
  EXPECT_EQ(buckets[0].grads.nbytes(), expected_offset);
}

TEST(MakeBuckets, RefusesAPlanThatForgetsAParameter) {
  const auto model = test::make_mlp({3, 2});
  const auto parameters = model->parameters();
  EXPECT_THAT([&] { make_buckets(parameters, {{0}}); },
              ThrowsMessage<Error>(HasSubstr("'0.bias' is not in the plan")));
}

TEST(MakeBuckets, RefusesAPlanThatNamesAParameterTwice) {
  const auto model = test::make_mlp({3, 2});
  const auto parameters = model->parameters();
  EXPECT_THAT(
      [&] {
        make_buckets(parameters, {{0, 1}, {1}});
      },
      ThrowsMessage<Error>(HasSubstr("'0.bias' is in the plan twice")));
}

}  // namespace
}  // namespace brigade::dist
