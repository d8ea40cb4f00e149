#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/ops.h"
#include "tests/support/expect_error.h"

namespace brigade {
namespace {

using testing::ElementsAre;
using testing::FloatNear;

Tensor f32(const std::vector<float>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

TEST(SgdKernel, MovesAgainstTheGradient) {
  Tensor w = f32({1, 2});
  Tensor none;
  ops::sgd({.lr = 0.5}, f32({2, -4}), w, none);
  EXPECT_THAT(w.to_vector<float>(), ElementsAre(0, 4));
}

TEST(SgdKernel, AddsTheWeightDecayToTheGradient) {
  Tensor w = f32({2});
  Tensor none;
  ops::sgd({.lr = 0.5, .weight_decay = 0.25}, f32({1}), w, none);
  EXPECT_THAT(w.to_vector<float>(), ElementsAre(1.25F));
}

TEST(SgdKernel, AnInfiniteGradientMovesTheWeightToInfinityWithMomentumToo) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Tensor w = f32({1});
  Tensor velocity = f32({0});
  ops::sgd({.lr = 0.5, .momentum = 0.5}, f32({kInfinity}), w, velocity);
  EXPECT_THAT(w.to_vector<float>(), ElementsAre(-kInfinity));
}

TEST(SgdKernel, AccumulatesTheVelocityInLaterSteps) {
  Tensor w = f32({0});
  Tensor velocity = f32({4});
  ops::sgd({.lr = 0.5, .momentum = 0.25}, f32({2}), w, velocity);
  EXPECT_THAT(velocity.to_vector<float>(), ElementsAre(3));
  EXPECT_THAT(w.to_vector<float>(), ElementsAre(-1.5F));
}

TEST(SgdKernel, LooksAheadWithNesterov) {
  Tensor w = f32({0});
  Tensor velocity = f32({4});
  ops::sgd({.lr = 0.5, .momentum = 0.25, .nesterov = true}, f32({2}), w, velocity);
  EXPECT_THAT(velocity.to_vector<float>(), ElementsAre(3));
  EXPECT_THAT(w.to_vector<float>(), ElementsAre(-1.375F));  // g + momentum v = 2.75
}

TEST(AdamKernel, MovesByTheLearningRateInTheFirstStep) {
  Tensor w = f32({1, 1});
  Tensor m = Tensor::zeros({2});
  Tensor v = Tensor::zeros({2});
  ops::adam({.lr = 0.1}, f32({1e-3F, -50}), w, m, v);
  EXPECT_THAT(w.to_vector<float>(), ElementsAre(FloatNear(0.9F, 1e-5F), FloatNear(1.1F, 1e-6F)));
}

TEST(AdamKernel, CorrectsTheBiasOfItsStep) {
  const auto two_steps = [](std::int64_t first) {
    Tensor w = f32({1, 1});
    Tensor m = Tensor::zeros({2});
    Tensor v = Tensor::zeros({2});
    ops::adam({.lr = 0.1, .step = first}, f32({3, -5}), w, m, v);
    ops::adam({.lr = 0.1, .step = first + 1}, f32({1, 1}), w, m, v);
    return w.to_vector<float>();
  };
  EXPECT_NE(two_steps(2), two_steps(7));
}

TEST(ClipKernels, AddUpSquaresAndScaleByTheRoot) {
  Tensor squares = Tensor::zeros({}, DType::f64);
  Tensor g = f32({3, -4});
  ops::add_squares(g, squares);
  ops::add_squares(f32({12}), squares);
  EXPECT_EQ(squares.item(), 169.0);
  ops::clip(squares, 6.5, g);
  EXPECT_THAT(g.to_vector<float>(), ElementsAre(FloatNear(1.5F, 1e-6F), FloatNear(-2.0F, 1e-6F)));
}

TEST(ClipKernels, NameTheSumThatIsNotOneDouble) {
  Tensor single = Tensor::zeros({});
  Tensor two = Tensor::zeros({2}, DType::f64);
  EXPECT_ERROR(ops::add_squares(f32({1}), single), "add_squares: expected sum of dtype f64 on cpu");
  EXPECT_ERROR(ops::add_squares(f32({1}), two), "add_squares: expected sum [], got [2]");
}

TEST(OptimizerKernels, NameTheWrongShape) {
  Tensor w = Tensor::zeros({3});
  Tensor none;
  EXPECT_ERROR(ops::sgd({}, Tensor::zeros({2}), w, none), "sgd: expected g [3], got [2]");
}

TEST(OptimizerKernels, NameTheWrongShapeOfTheirState) {
  Tensor w = Tensor::zeros({3});
  Tensor g = Tensor::zeros({3});
  Tensor small = Tensor::zeros({2});
  Tensor m = Tensor::zeros({3});
  EXPECT_ERROR(ops::sgd({.momentum = 0.9}, g, w, small), "sgd: expected velocity [3], got [2]");
  EXPECT_ERROR(ops::adam({}, g, w, m, small), "adam: expected v [3], got [2]");
}

}  // namespace
}  // namespace brigade
