// Functions of each element, of one variable and of two with broadcasting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "autograd/functions/binary.h"
#include "autograd/functions/loss.h"
#include "autograd/functions/reduce.h"
#include "autograd/functions/unary.h"
#include "autograd/variable.h"
#include "tests/support/expect_error.h"
#include "tests/support/grad_check.h"
#include "tests/support/tensors.h"

namespace brigade::autograd {
namespace {

using test::f32;
using test::values;
using testing::ElementsAre;
using testing::Pointwise;

constexpr double kTolerance = 1e-8;
using Inputs = std::vector<Variable>;
using Binary = std::function<Variable(const Variable&, const Variable&)>;
using Unary = std::function<Variable(const Variable&)>;

const std::vector<Binary> kBinary{
    [](const Variable& a, const Variable& b) { return a + b; },
    [](const Variable& a, const Variable& b) { return a - b; },
    [](const Variable& a, const Variable& b) { return a * b; },
    [](const Variable& a, const Variable& b) { return a / b; },
};

Variable leaf(const std::vector<float>& numbers, const Shape& shape) {
  return Variable(f32(numbers, shape), /*requires_grad=*/true);
}

TEST(Binary, RepeatsARowForEachRow) {
  const Variable a = leaf({1, 2, 3, 4, 5, 6}, {2, 3});
  const Variable b = leaf({10, 20, 40}, {3});
  EXPECT_THAT(values((a + b).data()), ElementsAre(11, 22, 43, 14, 25, 46));
  EXPECT_THAT(values((a - b).data()), ElementsAre(-9, -18, -37, -6, -15, -34));
  EXPECT_THAT(values((a * b).data()), ElementsAre(10, 40, 120, 40, 100, 240));
  EXPECT_THAT(values((b / a).data()), ElementsAre(10, 10, 40.0F / 3, 2.5F, 4, 40.0F / 6));
  sum(a * b).backward();
  EXPECT_THAT(values(a.grad()), ElementsAre(10, 20, 40, 10, 20, 40));
  EXPECT_THAT(values(b.grad()), ElementsAre(5, 7, 9));
}

TEST(Binary, RepeatsAColumnAndARow) {
  const Variable a = leaf({1, 2}, {2, 1});
  const Variable b = leaf({10, 20, 30}, {1, 3});
  const Variable y = a * b;
  EXPECT_EQ(y.shape(), Shape({2, 3}));
  EXPECT_THAT(values(y.data()), ElementsAre(10, 20, 30, 20, 40, 60));
  sum(y).backward();
  EXPECT_EQ(a.grad().shape(), Shape({2, 1}));
  EXPECT_THAT(values(a.grad()), ElementsAre(60, 60));
  EXPECT_THAT(values(b.grad()), ElementsAre(3, 3, 3));
}

TEST(Binary, RepeatsTheMiddleOfThreeDimensions) {
  const Variable a = leaf({1, 2, 3, 4}, {2, 1, 2});
  const Variable b = leaf({10, 20, 30}, {3, 1});
  EXPECT_THAT(values((a + b).data()), ElementsAre(11, 12, 21, 22, 31, 32, 13, 14, 23, 24, 33, 34));
}

TEST(Binary, TakesNumbersOnEitherSide) {
  const Variable x = leaf({1, 2, 4}, {3});
  EXPECT_THAT(values((x + 1).data()), ElementsAre(2, 3, 5));
  EXPECT_THAT(values((1 + x).data()), ElementsAre(2, 3, 5));
  EXPECT_THAT(values((x - 1).data()), ElementsAre(0, 1, 3));
  EXPECT_THAT(values((1 - x).data()), ElementsAre(0, -1, -3));
  EXPECT_THAT(values((x * 3).data()), ElementsAre(3, 6, 12));
  EXPECT_THAT(values((3 * x).data()), ElementsAre(3, 6, 12));
  EXPECT_THAT(values((x / 2).data()), ElementsAre(0.5F, 1, 2));
  EXPECT_THAT(values((2 / x).data()), ElementsAre(2, 1, 0.5F));
  EXPECT_THAT(values((-x).data()), ElementsAre(-1, -2, -4));
  EXPECT_THAT(values(neg(x).data()), ElementsAre(-1, -2, -4));
  sum(2 / x).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(-2, -0.5F, -0.125F));
}

TEST(Binary, OfAnEmptyTensorIsEmptyAndHasAZeroGradient) {
  const Variable empty(Tensor::empty({0, 3}), true);
  const Variable row = leaf({1, 2, 3}, {3});
  const Variable y = empty * row;
  EXPECT_EQ(y.shape(), Shape({0, 3}));
  sum(y).backward();
  EXPECT_THAT(values(row.grad()), ElementsAre(0, 0, 0));
  EXPECT_EQ(empty.grad().shape(), Shape({0, 3}));
}

TEST(Binary, RefusesTwoNumbers) {
  EXPECT_ERROR(add(1.0, 2.0), "add: expected at least one Variable, got two numbers");
}

TEST(Binary, RefusesShapesThatDoNotBroadcast) {
  const Variable a = leaf(std::vector<float>(6), {2, 3});
  EXPECT_ERROR(add(a, leaf({1, 2}, {2})),
               "add: expected shapes whose extents, from the last one on, are equal or 1, got "
               "[2, 3] and [2]; reshape one of them");
  EXPECT_ERROR(div(a, Variable(Tensor::empty({0, 3}))),
               "div: expected shapes whose extents, from the last one on, are equal or 1, got "
               "[2, 3] and [0, 3]; reshape one of them");
  EXPECT_ERROR(mul(a, Variable(Tensor::zeros({3}, DType::f64))),
               "mul: expected b of dtype f32, got f64");
}

TEST(Gradient, OfBinaryFunctionsIsRightForEveryWayToBroadcast) {
  const std::vector<std::pair<Shape, Shape>> shapes{{{2, 3}, {2, 3}},
                                                    {{2, 3}, {3}},
                                                    {{2, 1}, {1, 3}},
                                                    {{}, {2, 3}},
                                                    {{2, 3}, {2, 1}},
                                                    {{2, 1, 3}, {4, 1}},
                                                    {{1, 1}, {3}},
                                                    {{}, {}},
                                                    {{3}, {2, 2, 3}},
                                                    {{2, 3, 1, 2}, {3, 2, 1}},
                                                    {{1, 2, 1, 3}, {2, 1, 2, 1}}};
  for (std::size_t op = 0; op < kBinary.size(); ++op) {
    for (const auto& [a, b] : shapes) {
      const auto function = [&, &b = b, &a = a](const Inputs& in) {
        const Variable y = kBinary[op](in[0], in[1]);
        return mse_loss(y, smooth_values(y.shape(), 9));
      };
      EXPECT_LT(largest_gradient_error(function, {smooth_values(a, 0), smooth_values(b, 1)}), 1e-7)
          << "function " << op << " of " << a << " and " << b;
    }
  }
}

TEST(Gradient, OfAVariableTimesItselfIsRight) {
  const auto function = [](const Inputs& in) { return sum(in[0] * in[0] / (2 - in[0])); };
  EXPECT_LT(largest_gradient_error(function, {smooth_values({2, 3}, 0)}), kTolerance);
}

TEST(Gradient, OfBinaryFunctionsIsRightIfOneSideIsConstant) {
  const Variable constant(smooth_values({3}, 1));
  for (const Binary& op : kBinary) {
    const auto left = [&](const Inputs& in) { return sum(square(op(in[0], constant))); };
    const auto right = [&](const Inputs& in) { return sum(square(op(constant, in[0]))); };
    EXPECT_LT(largest_gradient_error(left, {smooth_values({2, 3}, 0)}), 1e-7);
    EXPECT_LT(largest_gradient_error(right, {smooth_values({2, 3}, 0)}), 1e-7);
  }
}

TEST(Unary, HasTheValuesOfPyTorch) {
  const auto near = [](const Variable& y, const std::vector<double>& expected) {
    EXPECT_THAT(y.data().to_vector<double>(), Pointwise(testing::DoubleNear(1e-12), expected));
  };
  const Variable x(Tensor::from(std::vector<double>{-2, 0, 0.5, 3}, {4}));
  near(exp(x), {0.135335283236613, 1, 1.648721270700128, 20.085536923187668});
  near(tanh(x), {-0.964027580075817, 0, 0.462117157260010, 0.995054753686730});
  near(sigmoid(x), {0.119202922022118, 0.5, 0.622459331201855, 0.952574126822433});
  near(square(x), {4, 0, 0.25, 9});
  near(gelu(x), {-0.045402305912225, 0, 0.345714009825144, 2.996362607918227});
  const Variable positive(Tensor::from(std::vector<double>{0.25, 1, 7}, {3}));
  near(log(positive), {-1.386294361119891, 0, 1.945910149055313});
  near(sqrt(positive), {0.5, 1, 2.645751311064591});
}

TEST(Unary, SaturatesWithoutNan) {
  const Variable x = leaf({-1000, 1000}, {2});
  EXPECT_THAT(values(sigmoid(x).data()), ElementsAre(0, 1));
  EXPECT_THAT(values(tanh(x).data()), ElementsAre(-1, 1));
  EXPECT_THAT(values(gelu(x).data()), ElementsAre(0, 1000));
  sum(sigmoid(x) + tanh(x) + gelu(x)).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(0, 1));
}

TEST(Unary, HasInfinitiesAndNanWherePyTorchHasThem) {
  const Variable x = leaf({0, -1}, {2});
  const std::vector<float> logs = values(log(x).data());
  EXPECT_EQ(logs[0], -INFINITY);
  EXPECT_TRUE(std::isnan(logs[1]));
  EXPECT_TRUE(std::isnan(values(sqrt(x).data())[1]));
}

TEST(Gradient, OfUnaryFunctionsIsRight) {
  const std::vector<Unary> any{neg, exp, square, tanh, sigmoid, gelu};
  const std::vector<Unary> of_positive{log, sqrt};
  const auto check = [](const Unary& op, const Tensor& x) {
    const auto function = [&](const Inputs& in) {
      return mse_loss(op(in[0]), smooth_values({3, 5}, 9));
    };
    return largest_gradient_error(function, {x});
  };
  for (std::size_t op = 0; op < any.size(); ++op) {
    EXPECT_LT(check(any[op], smooth_values({3, 5}, 0)), kTolerance) << "function " << op;
  }
  const Tensor positive = square(Variable(smooth_values({3, 5}, 0))).data();
  for (std::size_t op = 0; op < of_positive.size(); ++op) {
    EXPECT_LT(check(of_positive[op], positive), 1e-7) << "function " << op;
  }
}

TEST(Gradient, IsAddedToTheOneBeforeByEachFunction) {
  const Variable x = leaf({1, 2}, {2});
  const Variable row = leaf({3}, {1});
  sum(square(x) * row).backward();
  sum(square(x) * row).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(12, 24));
  EXPECT_THAT(values(row.grad()), ElementsAre(10));
}

Variable huber(const Variable& y, const Variable& t) {
  return mean(sqrt(1 + square(y - t)) - 1);
}

TEST(Loss, OfAUsersOwnIsArithmeticOnVariables) {
  const Variable y = leaf({0.75F, 1, 0}, {3});
  const Variable t(f32({0, 1, 2.4F}, {3}));
  const Variable loss = huber(y, t);
  // √(1 + 0.75²) - 1 = 0.25, 0, √(1 + 2.4²) - 1 = 1.6
  EXPECT_NEAR(loss.data().item(), (0.25 + 0 + 1.6) / 3, 1e-6);
  loss.backward();
  // d/dy = (y - t) / √(1 + (y - t)²) / 3
  EXPECT_THAT(values(y.grad()),
              Pointwise(testing::FloatNear(1e-6F), {0.75F / 1.25F / 3, 0.0F, -2.4F / 2.6F / 3}));
}

TEST(Gradient, OfAUsersOwnLossIsRight) {
  const auto function = [](const Inputs& in) { return huber(in[0], in[1]); };
  EXPECT_LT(largest_gradient_error(function, {smooth_values({4, 2}, 0), smooth_values({4, 2}, 1)}),
            kTolerance);
}

}  // namespace
}  // namespace brigade::autograd
