// Sums, means, maxima and softmax, of all elements and over one dimension.
#include "autograd/functions/reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "autograd/functions/binary.h"
#include "autograd/functions/loss.h"
#include "autograd/functions/softmax.h"
#include "autograd/functions/unary.h"
#include "autograd/variable.h"
#include "tests/support/expect_error.h"
#include "tests/support/grad_check.h"
#include "tests/support/tensors.h"

namespace brigade::autograd {
namespace {

using test::f32;
using test::kNaN;
using test::values;
using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

constexpr double kTolerance = 1e-8;
using Inputs = std::vector<Variable>;

/// 1, 2, 3, ...
Variable counting(const Shape& shape) {
  std::vector<float> numbers(static_cast<std::size_t>(shape.numel()));
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  return Variable(f32(numbers, shape), /*requires_grad=*/true);
}

TEST(Sum, OfAllElementsIsAScalar) {
  const Variable x = counting({2, 3});
  EXPECT_EQ(sum(x).shape(), Shape({}));
  EXPECT_EQ(sum(x).data().item(), 21);
  EXPECT_EQ(mean(x).data().item(), 3.5);
  EXPECT_EQ(max(x).data().item(), 6);
  mean(x).backward();
  EXPECT_THAT(values(x.grad()), Each(1.0F / 6));
}

TEST(Sum, OverADimensionLacksItOrKeepsItWithExtentOne) {
  const Variable x = counting({2, 3, 2});
  EXPECT_THAT(values(sum(x, 0).data()), ElementsAre(8, 10, 12, 14, 16, 18));
  EXPECT_THAT(values(sum(x, 1).data()), ElementsAre(9, 12, 27, 30));
  EXPECT_THAT(values(sum(x, 2).data()), ElementsAre(3, 7, 11, 15, 19, 23));
  EXPECT_THAT(values(mean(x, -2).data()), ElementsAre(3, 4, 9, 10));
  EXPECT_THAT(values(max(x, -2).data()), ElementsAre(5, 6, 11, 12));
  EXPECT_EQ(sum(x, 1).shape(), Shape({2, 2}));
  EXPECT_EQ(mean(x, -2, true).shape(), Shape({2, 1, 2}));
  EXPECT_EQ(max(x, -1, true).shape(), Shape({2, 3, 1}));
  EXPECT_EQ(sum(sum(x), 0).shape(), Shape({}));
}

TEST(Sum, OfNoElementsIsZeroAndTheMeanIsNan) {
  const Variable x(Tensor::empty({0, 2}), true);
  EXPECT_EQ(sum(x).data().item(), 0);
  EXPECT_TRUE(std::isnan(mean(x).data().item()));
  EXPECT_THAT(values(sum(x, 0).data()), ElementsAre(0, 0));
  EXPECT_EQ(sum(x, 1).shape(), Shape({0}));
  sum(x).backward();
  EXPECT_EQ(x.grad().shape(), Shape({0, 2}));
}

TEST(Sum, OfAMillionFloatsHasNoVisibleRoundingError) {
  Tensor x = Tensor::empty({1'000'000});
  ops::fill(0.1, x);
  EXPECT_FLOAT_EQ(static_cast<float>(sum(Variable(x)).data().item()), 100'000.0F);
}

TEST(Max, GivesTheGradientToTheFirstOfEqualValues) {
  const Variable x(f32({3, 5, 5, 1, 2, 2}, {2, 3}), true);
  EXPECT_THAT(values(max(x, 1).data()), ElementsAre(5, 2));
  sum(max(x, 1)).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(0, 1, 0, 0, 1, 0));
  x.zero_grad();
  max(x).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(0, 1, 0, 0, 0, 0));
}

TEST(Max, IsNanIfOneValueIs) {
  const Variable x(f32({1, kNaN, 7, 2, 3, 4}, {2, 3}), true);
  const std::vector<float> y = values(max(x, 1).data());
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 4);
  sum(max(x, 1)).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(0, 1, 0, 0, 0, 1));
}

TEST(Reduce, RefusesADimensionThatIsNotThere) {
  const Variable x = counting({2, 3});
  EXPECT_ERROR(sum(x, 2), "sum: expected a dimension of [2, 3], -2 to 1, got 2");
  EXPECT_ERROR(mean(x, -3), "mean: expected a dimension of [2, 3], -2 to 1, got -3");
  EXPECT_ERROR(max(sum(x), 1), "max: expected a dimension of [1], -1 to 0, got 1");
  EXPECT_ERROR(softmax(x, 2), "softmax: expected a dimension of [2, 3], -2 to 1, got 2");
  EXPECT_ERROR(log_softmax(x, 5), "log_softmax: expected a dimension of [2, 3], -2 to 1, got 5");
  EXPECT_ERROR(max(Variable(Tensor::empty({0, 3}))),
               "max: expected at least one element to choose from, got x [0, 3]");
}

TEST(Gradient, OfReductionsIsRight) {
  using Reduction = Variable (*)(const Variable&, std::int64_t, bool);
  for (const Reduction reduction : {Reduction{sum}, Reduction{mean}, Reduction{max}}) {
    for (const std::int64_t dim : {0, 1, 2}) {
      for (const bool keepdim : {false, true}) {
        const auto function = [&](const Inputs& in) {
          const Variable y = reduction(in[0], dim, keepdim);
          return mse_loss(y, smooth_values(y.shape(), 9));
        };
        EXPECT_LT(largest_gradient_error(function, {smooth_values({2, 3, 4}, 0)}), kTolerance)
            << "dim " << dim;
      }
    }
  }
  const auto all = [](const Inputs& in) {
    return sum(in[0]) * mean(square(in[0])) + square(max(in[0]));
  };
  EXPECT_LT(largest_gradient_error(all, {smooth_values({3, 4}, 0)}), kTolerance);
}

TEST(Softmax, HasTheValuesOfPyTorch) {
  const Variable x(f32({1, 2, 3, 0, 0, 0}, {2, 3}));
  const std::vector<float> expected{0.09003057F, 0.24472848F, 0.66524094F,
                                    1.0F / 3,    1.0F / 3,    1.0F / 3};
  EXPECT_THAT(values(softmax(x).data()), Pointwise(FloatNear(1e-6F), expected));
  const std::vector<float> logs{-2.4076059F, -1.4076059F, -0.4076059F,
                                -1.0986123F, -1.0986123F, -1.0986123F};
  EXPECT_THAT(values(log_softmax(x).data()), Pointwise(FloatNear(1e-6F), logs));
  const std::vector<float> columns{0.7310586F, 0.8807970F, 0.9525741F,
                                   0.2689414F, 0.1192029F, 0.0474259F};
  EXPECT_THAT(values(softmax(x, 0).data()), Pointwise(FloatNear(1e-6F), columns));
}

TEST(Softmax, OfLargeNumbersDoesNotOverflow) {
  const Variable x(f32({1000, 0, -1000}, {3}));
  EXPECT_THAT(values(softmax(x).data()), ElementsAre(1, 0, 0));
  EXPECT_THAT(values(log_softmax(x).data()), ElementsAre(0, -1000, -2000));
}

TEST(Gradient, OfSoftmaxIsRight) {
  using Function = Variable (*)(const Variable&, std::int64_t);
  for (const Function softmax_of : {Function{softmax}, Function{log_softmax}}) {
    for (const std::int64_t dim : {0, 1, -1}) {
      const auto function = [&](const Inputs& in) {
        return mse_loss(softmax_of(in[0], dim), smooth_values({3, 2, 4}, 9));
      };
      EXPECT_LT(largest_gradient_error(function, {smooth_values({3, 2, 4}, 0)}), kTolerance)
          << "dim " << dim;
    }
  }
}

TEST(Softmax, AddsItsGradientToTheOneBefore) {
  const Variable x(f32({0, 0}, {2}), true);
  const Variable weights(f32({4, 8}, {2}));
  sum(softmax(x) * weights).backward();
  sum(softmax(x) * weights).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(-2, 2));
}

}  // namespace
}  // namespace brigade::autograd
