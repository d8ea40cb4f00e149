#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/ops.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace brigade {
namespace {

using test::f32;
using test::kNaN;
using test::values;
using testing::Each;
using testing::ElementsAre;
using testing::FloatEq;
using testing::FloatNear;

Tensor labels(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

TEST(Mse, IsTheMeanOverAllElements) {
  Tensor loss = f32({kNaN}, {});
  ops::mse(f32({1, 2, 3, 4}, {2, 2}), f32({1, 0, 3, 1}, {2, 2}), loss);
  EXPECT_EQ(loss.item(), 13.0 / 4.0);
}

TEST(Mse, IsZeroWithoutSamples) {
  Tensor loss = f32({kNaN}, {});
  ops::mse(Tensor::empty({0, 3}), Tensor::empty({0, 3}), loss);
  EXPECT_EQ(loss.item(), 0.0);
}

TEST(MseBackward, IsTwiceTheDifferenceOverTheNumberOfElements) {
  Tensor dx = f32({kNaN, kNaN}, {2});
  ops::mse_backward(f32({5, 1}, {2}), f32({1, 2}, {2}), f32({0.5F}, {}), {}, dx);
  EXPECT_THAT(values(dx), ElementsAre(2, -0.5F));
}

TEST(MseBackward, AddsToItsDestinationTimesBeta) {
  Tensor dx = f32({10, 20}, {2});
  ops::mse_backward(f32({5, 1}, {2}), f32({1, 2}, {2}), f32({1}, {}), {.alpha = 0.5, .beta = 0.5},
                    dx);
  EXPECT_THAT(values(dx), ElementsAre(7, 9.5F));
}

TEST(CrossEntropy, IsTheMeanNegativeLogProbabilityOfTheLabels) {
  // Row 0: uniform over 4, so log 4. Row 1: e^ln3 against three ones, so log 6 - log 3.
  const float ln3 = std::log(3.0F);
  Tensor softmax = f32(std::vector<float>(8, kNaN), {2, 4});
  Tensor loss = f32({kNaN}, {});
  ops::cross_entropy(f32({7, 7, 7, 7, 0, ln3, 0, 0}, {2, 4}), labels({2, 1}), softmax, loss);
  EXPECT_NEAR(loss.item(), (std::log(4.0) + std::log(2.0)) / 2.0, 1e-6);
  EXPECT_THAT(values(softmax),
              ElementsAre(0.25F, 0.25F, 0.25F, 0.25F, FloatNear(1.0F / 6, 1e-6F), FloatEq(0.5F),
                          FloatNear(1.0F / 6, 1e-6F), FloatNear(1.0F / 6, 1e-6F)));
}

TEST(CrossEntropy, DoesNotOverflowForLargeLogits) {
  Tensor softmax = Tensor::empty({1, 2});
  Tensor loss = Tensor::empty({});
  ops::cross_entropy(f32({1000, -1000}, {1, 2}), labels({1}), softmax, loss);
  EXPECT_EQ(loss.item(), 2000.0);
}

TEST(CrossEntropy, FindsTheLargestLogitWhereverItStands) {
  for (std::size_t at = 0; at < 19; ++at) {
    std::vector<float> logits(19, 0.0F);
    logits[at] = 1000.0F;
    Tensor softmax = Tensor::empty({1, 19});
    Tensor loss = Tensor::empty({});
    ops::cross_entropy(f32(logits, {1, 19}), labels({static_cast<std::int64_t>(at)}), softmax,
                       loss);
    EXPECT_EQ(loss.item(), 0.0) << at;
  }
}

TEST(CrossEntropy, SoftmaxIsExactToAFewUnitsInTheLastPlace) {
  // Every distance from the largest logit, in a width that is no multiple of a vector's.
  constexpr std::int64_t kClasses = 1003;
  std::vector<float> logits;
  double total = 0.0;
  for (std::int64_t i = 0; i < kClasses; ++i) {
    logits.push_back(5.0F - 0.0797F * static_cast<float>(i));
    total += std::exp(static_cast<double>(logits.back()) - 5.0);
  }
  Tensor softmax = Tensor::empty({1, kClasses});
  Tensor loss = Tensor::empty({});
  ops::cross_entropy(f32(logits, {1, kClasses}), labels({1}), softmax, loss);
  const std::vector<float> found = values(softmax);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double distance = static_cast<double>(logits[i] - 5.0F);
    const double expected = std::exp(distance) / total;
    EXPECT_NEAR(found[i], expected, 4e-7 * expected) << "e^" << distance;
  }
}

TEST(CrossEntropy, GivesNothingToWhatIsTooFarFromTheLargest) {
  Tensor softmax = Tensor::empty({1, 3});
  Tensor loss = Tensor::empty({});
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ops::cross_entropy(f32({0, -200, -kInfinity}, {1, 3}), labels({0}), softmax, loss);
  EXPECT_THAT(values(softmax), ElementsAre(1, 0, 0));
  ops::cross_entropy(f32({0, -86.9F, -87.1F}, {1, 3}), labels({0}), softmax, loss);
  const auto least = static_cast<float>(std::exp(static_cast<double>(-86.9F)));
  EXPECT_THAT(values(softmax), ElementsAre(1, FloatNear(least, 1e-6F * least), 0));
}

TEST(CrossEntropy, PassesNaNOn) {
  for (std::int64_t classes : {1, 3, 8, 21}) {
    for (std::int64_t at = 0; at < classes; ++at) {
      std::vector<float> logits(static_cast<std::size_t>(classes), 1.0F);
      logits[static_cast<std::size_t>(at)] = kNaN;
      Tensor softmax = Tensor::empty({1, classes});
      Tensor loss = Tensor::empty({});
      ops::cross_entropy(f32(logits, {1, classes}), labels({0}), softmax, loss);
      EXPECT_TRUE(std::isnan(loss.item())) << at << " of " << classes;
    }
  }
}

TEST(CrossEntropy, IsZeroWithoutSamples) {
  Tensor softmax = Tensor::empty({0, 4});
  Tensor loss = f32({kNaN}, {});
  ops::cross_entropy(Tensor::empty({0, 4}), labels({}), softmax, loss);
  EXPECT_EQ(loss.item(), 0.0);
}

TEST(CrossEntropy, NamesALabelOutOfRangeAndItsRow) {
  Tensor softmax = Tensor::empty({2, 10});
  Tensor loss = Tensor::empty({});
  EXPECT_ERROR(ops::cross_entropy(Tensor::zeros({2, 10}), labels({9, 10}), softmax, loss),
               "labels: expected 0 to 9, got 10 in row 1");
  EXPECT_ERROR(ops::cross_entropy(Tensor::zeros({2, 10}), labels({-1, 0}), softmax, loss),
               "labels: expected 0 to 9, got -1 in row 0");
}

TEST(CrossEntropy, RefusesLabelsOfAnotherTypeOrNumber) {
  Tensor softmax = Tensor::empty({2, 10});
  Tensor loss = Tensor::empty({});
  EXPECT_ERROR(ops::cross_entropy(Tensor::zeros({2, 10}), Tensor::zeros({2}), softmax, loss),
               "cross_entropy: expected labels of dtype i64");
  EXPECT_ERROR(ops::cross_entropy(Tensor::zeros({2, 10}), labels({1, 2, 3}), softmax, loss),
               "cross_entropy: expected labels [2], got [3]");
}

TEST(Losses, RefuseOperandsOfOtherShapes) {
  Tensor dx = Tensor::empty({2, 3});
  const Tensor x = Tensor::zeros({2, 3});
  const Tensor one = Tensor::zeros({});
  EXPECT_ERROR(ops::mse_backward(x, Tensor::zeros({3}), one, {}, dx),
               "mse_loss: expected target [2, 3], got [3]");
  EXPECT_ERROR(ops::mse_backward(x, x, Tensor::zeros({2}), {}, dx),
               "mse_loss: expected dloss [], got [2]");
  EXPECT_ERROR(ops::cross_entropy_backward(x, labels({1}), one, {}, dx),
               "cross_entropy: expected labels [2], got [1]");
  EXPECT_ERROR(ops::cross_entropy_backward(x, labels({1, 2}), Tensor::zeros({2}), {}, dx),
               "cross_entropy: expected dloss [], got [2]");
}

TEST(CrossEntropyBackward, IsTheSoftmaxMinusTheOneHotRowsOverTheNumberOfRows) {
  Tensor dx = f32({kNaN, kNaN, kNaN, kNaN}, {2, 2});
  ops::cross_entropy_backward(f32({0.25F, 0.75F, 0.5F, 0.5F}, {2, 2}), labels({1, 0}), f32({2}, {}),
                              {}, dx);
  EXPECT_THAT(values(dx), ElementsAre(0.25F, -0.25F, -0.5F, 0.5F));
}

TEST(CrossEntropyBackward, OfMoreClassesThanAVectorHoldsIsTheFormula) {
  constexpr std::int64_t kRows = 3;
  constexpr std::int64_t kClasses = 37;
  Tensor softmax = Tensor::empty({kRows, kClasses});
  Tensor dx = Tensor::empty({kRows, kClasses});
  ops::uniform({.stream = {.seed = 1}, .low = 0.0, .high = 1.0}, dx);
  const std::vector<float> before = values(dx);
  ops::uniform({.stream = {.seed = 2}, .low = 0.0, .high = 1.0}, softmax);
  const std::vector<std::int64_t> right = {0, 36, 17};
  ops::cross_entropy_backward(softmax, labels(right), f32({6}, {}), {.alpha = 0.5, .beta = 2.0},
                              dx);
  const std::vector<float> p = values(softmax);
  for (std::int64_t i = 0; i < kRows * kClasses; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const float one = i % kClasses == right[static_cast<std::size_t>(i / kClasses)] ? 1.0F : 0.0F;
    EXPECT_FLOAT_EQ(values(dx)[at], (p[at] - one) + 2.0F * before[at]) << "at " << i;
  }
}

TEST(CrossEntropyBackward, RefusesALabelThatIsNoClass) {
  Tensor dx = f32({0, 0}, {1, 2});
  EXPECT_ERROR(
      ops::cross_entropy_backward(f32({0.25F, 0.75F}, {1, 2}), labels({2}), f32({1}, {}), {}, dx),
      "labels: expected 0 to 1, got 2 in row 0");
}

TEST(CrossEntropyBackward, AddsToItsDestinationTimesBeta) {
  Tensor dx = f32({1, 1}, {1, 2});
  ops::cross_entropy_backward(f32({0.25F, 0.75F}, {1, 2}), labels({1}), f32({1}, {}),
                              {.alpha = 2.0, .beta = 3.0}, dx);
  EXPECT_THAT(values(dx), ElementsAre(3.5F, 2.5F));
}

TEST(OneHot, SetsOneColumnPerRow) {
  Tensor y = f32(std::vector<float>(6, kNaN), {2, 3});
  ops::one_hot(labels({2, 0}), y);
  EXPECT_THAT(values(y), ElementsAre(0, 0, 1, 1, 0, 0));
}

TEST(OneHot, NamesALabelOutOfRange) {
  Tensor y = Tensor::empty({1, 3});
  EXPECT_ERROR(ops::one_hot(labels({3}), y), "labels: expected 0 to 2, got 3 in row 0");
}

}  // namespace
}  // namespace brigade
