#include "optim/clip_grad.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "optim/sgd.h"
#include "tests/support/expect_error.h"

namespace brigade::optim {
namespace {

using autograd::Variable;
using testing::ElementsAre;
using Row = std::vector<float>;

/// Two parameters in memory of their own, hence two spans, with these gradients.
struct Two {
  explicit Two(const Row& first, const Row& second)
      : a(with_gradient(first)), b(with_gradient(second)), optimizer({a, b}, {.lr = 1.0}) {
    // Only now is there a place for a gradient.
    fill(a, first);
    fill(b, second);
  }
  static Variable with_gradient(const Row& values) {
    return Variable(Tensor::zeros({static_cast<std::int64_t>(values.size())}), true);
  }
  static void fill(const Variable& variable, const Row& values) {
    variable.grad_state()->set_grad(Tensor::from(values, variable.shape()));
  }

  Variable a;
  Variable b;
  SGD optimizer;
};

TEST(ClipGradNorm, ScalesAllGradientsByTheNormOfAllTogether) {
  Two two({3, 0}, {4});
  EXPECT_DOUBLE_EQ(clip_grad_norm(two.optimizer, 2.5).item(), 5.0) << "before clipping";
  // 2.5 / (5 + 1e-6), as PyTorch
  EXPECT_THAT(two.a.grad().to_vector<float>(),
              ElementsAre(testing::FloatNear(1.4999997F, 2e-7F), 0));
  EXPECT_THAT(two.b.grad().to_vector<float>(), ElementsAre(testing::FloatNear(1.9999996F, 2e-7F)));
}

TEST(ClipGradNorm, FollowsPyTorchsFormulaToTheLastEps) {
  // Tiny gradients show the eps: norm 5e-6, factor 1e-6 / (5e-6 + 1e-6) = 1 / 6.
  Two two({3e-6F}, {4e-6F});
  clip_grad_norm(two.optimizer, 1e-6);
  EXPECT_THAT(two.a.grad().to_vector<float>(), ElementsAre(testing::FloatNear(0.5e-6F, 1e-12F)));
}

TEST(ClipGradNorm, LeavesShortGradientsBitForBit) {
  Two two({3, 0.1F}, {4});
  clip_grad_norm(two.optimizer, 100.0);
  EXPECT_THAT(two.a.grad().to_vector<float>(), ElementsAre(3, 0.1F));
  EXPECT_THAT(two.b.grad().to_vector<float>(), ElementsAre(4));
}

TEST(ClipGradNorm, IgnoresAParameterThatTheStepLeavesAlone) {
  Two two({3}, {4});
  two.b.grad_state()->mark_unused();
  EXPECT_DOUBLE_EQ(clip_grad_norm(two.optimizer, 10.0).item(), 3.0);
}

TEST(ClipGradNorm, LetsANaNShow) {
  Two two({std::numeric_limits<float>::quiet_NaN()}, {4});
  clip_grad_norm(two.optimizer, 1.0);
  EXPECT_TRUE(std::isnan(two.b.grad().to_vector<float>()[0]));
}

TEST(ClipGradNorm, SumsInDouble) {
  // In float, 1 + 2^-26 is 1: a million small gradients beside a large one would vanish.
  Two two(Row(1U << 16U, 0x1p-13F), {1});
  EXPECT_DOUBLE_EQ(clip_grad_norm(two.optimizer, 100.0).item(), std::sqrt(1.0 + 0x1p-10));
}

TEST(ClipGradNorm, AddsUpInTheOrderOfTheListWhereverTheParametersLie) {
  // Else ranks, whose memory lies otherwise, would not have the same norm.
  const Tensor memory = Tensor::zeros({96});
  const auto lying_at = [&](std::int64_t place) {
    return Variable(memory.flat_view(place, {2}), true);
  };
  const std::vector<Variable> parameters{lying_at(64), lying_at(0), lying_at(32)};
  SGD optimizer(parameters, {.lr = 1.0});
  std::vector<const std::byte*> places;
  std::vector<const std::byte*> expected;
  for (const Variable& parameter : parameters) {
    parameter.grad_state()->fill_with_zeros();
    expected.push_back(parameter.data().bytes());
  }
  for (const ParamRange& part : optimizer.parts()) {
    places.push_back(part.data.bytes());
  }
  EXPECT_EQ(places, expected);
}

TEST(ClipGradNorm, RefusesANormThatIsNotPositive) {
  Two two({3}, {4});
  EXPECT_ERROR(clip_grad_norm(two.optimizer, 0.0), "clip_grad_norm: expected max_norm > 0, got 0");
}

}  // namespace
}  // namespace brigade::optim
