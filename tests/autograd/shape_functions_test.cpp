#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "autograd/functions/shape.h"
#include "tests/autograd/backward_from.h"
#include "tests/support/expect_error.h"
#include "tests/support/grad_check.h"

namespace brigade::autograd {
namespace {

using Floats = std::vector<float>;
using Inputs = std::vector<Variable>;

/// 0, 1, 2, ...
Variable counting(const Shape& shape) {
  Floats numbers(static_cast<std::size_t>(shape.numel()));
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  return leaf(numbers, shape);
}

/// Checks the gradient of mean((f(x) - target)²).
void expect_right_gradient(const std::function<Variable(const Inputs&)>& f,
                           const std::vector<Tensor>& inputs) {
  const auto function = [&](const Inputs& in) {
    const Variable y = f(in);
    return mse_loss(y, smooth_values(y.shape(), 9));
  };
  EXPECT_LT(largest_gradient_error(function, inputs), 1e-8);
}

TEST(Reshape, IsAViewOfTheSameNumbers) {
  const Variable x = counting({2, 3});
  const Variable y = reshape(x, {3, 2});
  EXPECT_EQ(y.shape(), (Shape{3, 2}));
  EXPECT_EQ(y.data().bytes(), x.data().bytes());
  backward_from(y, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(gradient(x), (Floats{1, 2, 3, 4, 5, 6}));
}

TEST(Reshape, InfersOneExtent) {
  const Variable x = counting({2, 3, 4});
  EXPECT_EQ(reshape(x, {-1}).shape(), (Shape{24}));
  EXPECT_EQ(reshape(x, {4, -1, 2}).shape(), (Shape{4, 3, 2}));
  EXPECT_EQ(reshape(x, {24, -1}).shape(), (Shape{24, 1}));
  EXPECT_EQ(reshape(counting({0, 3}), {-1, 3}).shape(), (Shape{0, 3}));
  EXPECT_EQ(reshape(counting({1}), {}).shape(), Shape());
  EXPECT_EQ(reshape(x, counting({6, 4}).shape().extents()).shape(), (Shape{6, 4}));
}

TEST(Reshape, NamesAShapeOfAnotherSize) {
  const Variable x = counting({2, 3});
  EXPECT_ERROR(reshape(x, {4, -1}),
               "reshape: expected 6 elements as in [2, 3] and at most one -1, got [4, -1]");
  EXPECT_ERROR(reshape(x, {7}),
               "reshape: expected 6 elements as in [2, 3] and at most one -1, got [7]");
  EXPECT_ERROR(reshape(x, {-1, 6, -1}),
               "reshape: expected 6 elements as in [2, 3] and at most one -1, got [-1, 6, -1]");
  EXPECT_ERROR(reshape(x, {-2, -3}),
               "reshape: expected 6 elements as in [2, 3] and at most one -1, got [-2, -3]");
  EXPECT_ERROR(reshape(counting({0}), {0, -1}),
               "reshape: expected 0 elements as in [0] and at most one -1, got [0, -1]");
}

TEST(Reshape, AddsItsGradientToOthers) {
  expect_right_gradient(
      [](const Inputs& in) {
        return concat({reshape(in[0], {6}), reshape(in[0], {6})});
      },
      {smooth_values({2, 3}, 0)});
}

TEST(Transpose, ExchangesTwoDimensions) {
  const Variable x = counting({2, 3});
  const Variable y = transpose(x, 0, 1);
  EXPECT_EQ(y.shape(), (Shape{3, 2}));
  EXPECT_EQ(values(y), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(transpose(x, -1, -2)), values(y));
  backward_from(y, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(gradient(x), (Floats{1, 3, 5, 2, 4, 6}));
}

TEST(Permute, ReordersTheDimensions) {
  const Variable x = counting({2, 1, 2, 3});
  const Variable y = permute(x, {3, 0, 1, -2});
  EXPECT_EQ(y.shape(), (Shape{3, 2, 1, 2}));
  EXPECT_EQ(values(y), (Floats{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}));
  EXPECT_EQ(values(permute(x, {0, 1, 2, 3})), values(x));
  EXPECT_EQ(values(permute(counting({}), {})), (Floats{0}));
  EXPECT_EQ(permute(counting({2, 0, 3}), {2, 1, 0}).shape(), (Shape{3, 0, 2}));
}

TEST(Permute, HasTheRightGradient) {
  for (const std::vector<int>& dims :
       {std::vector{2, 0, 1}, std::vector{1, 2, 0}, std::vector{0, 2, 1}, std::vector{0, 1, 2}}) {
    expect_right_gradient([&](const Inputs& in) { return permute(in[0], dims); },
                          {smooth_values({2, 3, 4}, 0)});
  }
  expect_right_gradient(
      [](const Inputs& in) {
        return permute(in[0], {3, 1, 0, 2});
      },
      {smooth_values({2, 3, 2, 2}, 0)});
}

TEST(Permute, NamesDimensionsThatAreNoPermutation) {
  const Variable x = counting({2, 3});
  EXPECT_ERROR(permute(x, {0, 0}),
               "permute: expected each of the 2 dimensions of [2, 3] once, got [0, 0]");
  EXPECT_ERROR(permute(x, {1}),
               "permute: expected each of the 2 dimensions of [2, 3] once, got [1]");
  EXPECT_ERROR(permute(x, {0, 2}), "permute: expected a dimension of [2, 3], -2 to 1, got 2");
  EXPECT_ERROR(transpose(x, -3, 0), "transpose: expected a dimension of [2, 3], -2 to 1, got -3");
}

TEST(Slice, TakesARange) {
  const Variable x = counting({3, 4});
  const Variable y = slice(x, 1, 1, 3);
  EXPECT_EQ(y.shape(), (Shape{3, 2}));
  EXPECT_EQ(values(y), (Floats{1, 2, 5, 6, 9, 10}));
  backward_from(y, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(gradient(x), (Floats{0, 1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0})) << "0 outside the slice";
}

TEST(Slice, CountsAndCutsAsPython) {
  const Variable x = counting({5});
  EXPECT_EQ(values(slice(x, 0, 1, -1)), (Floats{1, 2, 3}));
  EXPECT_EQ(values(slice(x, -1, -2, 100)), (Floats{3, 4}));
  EXPECT_EQ(values(slice(x, 0, -100, 2)), (Floats{0, 1}));
  EXPECT_EQ(slice(x, 0, 3, 2).shape(), (Shape{0}));
  EXPECT_ERROR(slice(x, 1, 0, 1), "slice: expected a dimension of [5], -1 to 0, got 1");
}

TEST(Slice, HasTheRightGradient) {
  expect_right_gradient([](const Inputs& in) { return slice(in[0], 0, 1, 2); },
                        {smooth_values({3, 2}, 0)});
  expect_right_gradient([](const Inputs& in) { return slice(in[0], 2, 1, 3); },
                        {smooth_values({2, 2, 3, 2}, 0)});
}

TEST(Slice, AddsOverlappingSlicesAndTheBackwardsSinceZeroGrad) {
  const Variable x = counting({4});
  backward_from(concat({slice(x, 0, 0, 3), slice(x, 0, 1, 4)}), {1, 1, 1, 10, 10, 10});
  EXPECT_EQ(gradient(x), (Floats{1, 11, 11, 10}));
  backward_from(slice(x, 0, 3, 4), {100});
  EXPECT_EQ(gradient(x), (Floats{1, 11, 11, 110}));
}

TEST(Concat, JoinsAlongADimension) {
  const Variable a = counting({2, 1});
  const Variable b = leaf({5, 6, 7, 8}, {2, 2});
  const Variable y = concat({a, b}, 1);
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  EXPECT_EQ(values(y), (Floats{0, 5, 6, 1, 7, 8}));
  backward_from(y, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(gradient(a), (Floats{1, 4}));
  EXPECT_EQ(gradient(b), (Floats{2, 3, 5, 6}));
  EXPECT_EQ(values(concat({a}, -1)), values(a));
  EXPECT_EQ(concat({counting({0, 2}), b, counting({0, 2})}).shape(), (Shape{2, 2}));
}

TEST(Concat, HasTheRightGradientAlsoForAVariableUsedTwice) {
  for (const int dim : {0, 1, -1}) {
    expect_right_gradient(
        [&](const Inputs& in) {
          return concat({in[0], in[1], in[0]}, dim);
        },
        {smooth_values({2, 3, 2}, 0), smooth_values({2, 3, 2}, 1)});
  }
}

TEST(Concat, GivesNoGradientToAConstant) {
  const Variable a = counting({2});
  const Variable constant(Tensor::zeros({1}));
  backward_from(concat({constant, a}), {5, 6, 7});
  EXPECT_EQ(gradient(a), (Floats{6, 7}));
  EXPECT_FALSE(concat({constant, constant}).requires_grad());
}

TEST(Concat, NamesTheTensorThatDoesNotFit) {
  EXPECT_ERROR(concat({}), "concat: expected at least one tensor, got none");
  EXPECT_ERROR(concat({counting({2, 3}), counting({1, 3}), counting({2, 4})}, 0),
               "concat: expected tensor 2 to have the shape [2, 3] of tensor 0, dimension 0 "
               "excepted, got [2, 4]");
  EXPECT_ERROR(concat({counting({2, 3}), counting({2})}, 1),
               "concat: expected tensor 1 to have the shape [2, 3] of tensor 0, dimension 1 "
               "excepted, got [2]");
  EXPECT_ERROR(concat({counting({2})}, 1), "concat: expected a dimension of [2], -1 to 0, got 1");
}

}  // namespace
}  // namespace brigade::autograd
