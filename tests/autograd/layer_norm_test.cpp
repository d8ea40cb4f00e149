#include "autograd/functions/layer_norm.h"

#include <gtest/gtest.h>

#include "tests/autograd/backward_from.h"
#include "tests/autograd/probe.h"
#include "tests/support/expect_error.h"
#include "tests/support/grad_check.h"

namespace brigade::autograd {
namespace {

using Floats = std::vector<float>;
using Inputs = std::vector<Variable>;

TEST(LayerNorm, NormalizesTheLastDimension) {
  // Rows of mean 2 and deviation 2, and of mean 0 and deviation 3.
  const Variable x = leaf({0, 4, 0, 4, 3, 3, -3, -3}, {2, 4});
  const Variable weight = leaf({1, 2, 3, 4}, {4});
  const Variable bias = leaf({10, 20, 30, 40}, {4});
  const Variable plain = layer_norm(x, Variable(), Variable(), 0.0);
  EXPECT_EQ(plain.shape(), (Shape{2, 4}));
  const Floats normalized = values(plain);
  const Floats scaled = values(layer_norm(x, weight, bias, 0.0));
  const Floats expected{-1, 1, -1, 1, 1, 1, -1, -1};
  const Floats expected_scaled{9, 22, 27, 44, 11, 22, 27, 36};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(normalized[i], expected[i], 1e-6) << i;
    EXPECT_NEAR(scaled[i], expected_scaled[i], 1e-5) << i;
  }
}

TEST(LayerNorm, HasTheNumbersOfPyTorch) {
  // torch.nn.functional.layer_norm(torch.tensor([1., 2., 3., 4.]), [4])
  const Floats y = values(layer_norm(leaf({1, 2, 3, 4}, {4}), Variable(), Variable()));
  const Floats expected{-1.3416355F, -0.4472118F, 0.4472118F, 1.3416355F};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(y[i], expected[i], 2e-7) << i;
  }
}

TEST(LayerNorm, KeepsTheVarianceOfRowsWithALargeMean) {
  const Floats y = values(layer_norm(leaf({10000, 10004}, {2}), Variable(), Variable(), 0.0));
  EXPECT_EQ(y, (Floats{-1, 1}));
}

TEST(LayerNorm, SendsBackTheGradientsThatFollowByHand) {
  const Variable x = leaf({0, 4, 0, 4}, {1, 4});  // x̂ = -1, 1, -1, 1 and rstd = 1/2
  const Variable weight = leaf({2, 1, 1, 1}, {4});
  const Variable bias = leaf({0, 0, 0, 0}, {4});
  backward_from(layer_norm(x, weight, bias, 0.0), {1, 0, 0, 8});
  EXPECT_EQ(gradient(weight), (Floats{-1, 0, 0, 8}));
  EXPECT_EQ(gradient(bias), (Floats{1, 0, 0, 8}));
  // g = 2, 0, 0, 8: mean 2.5, mean of g x̂ 1.5; dx = (g - 2.5 - 1.5 x̂) / 2
  EXPECT_EQ(gradient(x), (Floats{0.5, -2, -0.5, 2}));
}

TEST(LayerNorm, HasTheRightGradients) {
  for (const Shape& shape : {Shape{5}, Shape{3, 5}, Shape{2, 3, 5}, Shape{2, 1, 3, 5}}) {
    const Tensor x = smooth_values(shape, 0);
    const Tensor weight = smooth_values({5}, 1);
    const Tensor bias = smooth_values({5}, 2);
    const Tensor target = smooth_values(shape, 9);
    const auto both = [&](const Inputs& in) {
      return mse_loss(layer_norm(in[0], in[1], in[2]), target);
    };
    const auto neither = [&](const Inputs& in) {
      return mse_loss(layer_norm(in[0], Variable(), Variable()), target);
    };
    const auto only_bias = [&](const Inputs& in) {
      return mse_loss(layer_norm(in[0], Variable(), in[1]), target);
    };
    EXPECT_LT(largest_gradient_error(both, {x, weight, bias}), 1e-8) << shape;
    EXPECT_LT(largest_gradient_error(neither, {x}), 1e-8) << shape;
    EXPECT_LT(largest_gradient_error(only_bias, {x, bias}), 1e-8) << shape;
  }
}

TEST(LayerNorm, AddsTheGradientsOfTwoUses) {
  const auto twice = [](const Inputs& in) {
    return mse_loss(layer_norm(layer_norm(in[0], in[1], in[2]), in[1], in[2]),
                    smooth_values({3, 4}, 9));
  };
  EXPECT_LT(largest_gradient_error(
                twice, {smooth_values({3, 4}, 0), smooth_values({4}, 1), smooth_values({4}, 2)}),
            1e-8);
}

TEST(LayerNorm, WritesParametersBeforeTheInput) {
  const Variable x = leaf({0, 4}, {1, 2});
  const Variable weight = leaf({1, 1}, {2});
  const Variable bias = leaf({0, 0}, {2});
  EventLog log;
  LoggingListener listener(log);
  const ListenerHandle of_x = x.attach_listener(listener, 0);
  const ListenerHandle of_weight = weight.attach_listener(listener, 1);
  const ListenerHandle of_bias = bias.attach_listener(listener, 2);
  backward_from(layer_norm(x, weight, bias), {1, 2});
  EXPECT_EQ(log, (EventLog{"begin", "ready 1", "ready 2", "ready 0", "end"}));
}

TEST(LayerNorm, OfNothingIsEmptyAndItsGradientsZero) {
  const Variable weight = leaf({1, 1}, {2});
  const Variable bias = leaf({0, 0}, {2});
  const Variable y = layer_norm(Variable(Tensor::empty({0, 2})), weight, bias);
  EXPECT_EQ(y.shape(), (Shape{0, 2}));
  mse_loss(y, Tensor::empty({0, 2})).backward();
  EXPECT_EQ(gradient(weight), (Floats{0, 0}));
  EXPECT_EQ(gradient(bias), (Floats{0, 0}));
  EXPECT_EQ(layer_norm(Variable(Tensor::empty({3, 0})), Variable(), Variable()).shape(),
            (Shape{3, 0}));
}

TEST(LayerNorm, NamesTheWrongShape) {
  const Variable x(Tensor::empty({2, 3}));
  EXPECT_ERROR(layer_norm(Variable(Tensor::empty({})), Variable(), Variable()),
               "layer_norm: expected x [..., D], got []");
  EXPECT_ERROR(layer_norm(x, Variable(Tensor::empty({2})), Variable()),
               "layer_norm: expected x [..., 2], as wide as weight, got [2, 3]");
  EXPECT_ERROR(layer_norm(x, Variable(), Variable(Tensor::empty({3, 1}))),
               "layer_norm: expected bias [3], got [3, 1]");
  EXPECT_ERROR(layer_norm(x, Variable(Tensor::empty({3}, DType::f64)), Variable()),
               "layer_norm: expected x of dtype f64, got f32");
}

}  // namespace
}  // namespace brigade::autograd
