// Every backward against finite differences in double.
#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/functions/binary.h"
#include "autograd/functions/linear.h"
#include "autograd/functions/loss.h"
#include "autograd/functions/unary.h"
#include "autograd/node.h"
#include "core/ops.h"
#include "tests/support/expect_error.h"
#include "tests/support/grad_check.h"

namespace brigade::autograd {
namespace {

constexpr double kTolerance = 1e-8;
using Inputs = std::vector<Variable>;

const std::vector<std::int64_t> kLabels{2, 0, 1, 2};

TEST(Gradient, OfLinearWithBiasIsRight) {
  const auto function = [](const Inputs& in) {
    return mse_loss(linear(in[0], in[1], in[2]), smooth_values({4, 2}, 9));
  };
  EXPECT_LT(largest_gradient_error(function, {smooth_values({4, 3}, 0), smooth_values({2, 3}, 1),
                                              smooth_values({2}, 2)}),
            kTolerance);
}

TEST(Gradient, OfLinearWithoutBiasIsRight) {
  const auto function = [](const Inputs& in) {
    return mse_loss(linear(in[0], in[1], Variable()), smooth_values({4, 2}, 9));
  };
  EXPECT_LT(largest_gradient_error(function, {smooth_values({4, 3}, 0), smooth_values({2, 3}, 1)}),
            kTolerance);
}

TEST(Gradient, OfLinearWithReluIsRight) {
  const auto with_bias = [](const Inputs& in) {
    return mse_loss(linear_relu(in[0], in[1], in[2]), smooth_values({4, 2}, 9));
  };
  EXPECT_LT(largest_gradient_error(with_bias, {smooth_values({4, 3}, 0), smooth_values({2, 3}, 1),
                                               smooth_values({2}, 2)}),
            kTolerance);
  const auto without = [](const Inputs& in) {
    return mse_loss(linear_relu(in[0], in[1], Variable()), smooth_values({4, 2}, 9));
  };
  EXPECT_LT(largest_gradient_error(without, {smooth_values({4, 3}, 0), smooth_values({2, 3}, 1)}),
            kTolerance);
}

TEST(Gradient, OfLinearIsRightWhereOnlyOneParameterWantsOne) {
  const Variable w(smooth_values({2, 3}, 1));
  const Variable b(smooth_values({2}, 2));
  const Tensor target = smooth_values({4, 2}, 9);
  const std::vector<Tensor> weight{smooth_values({4, 3}, 0), w.data()};
  const std::vector<Tensor> bias{smooth_values({4, 3}, 0), b.data()};
  for (const auto layer : {linear, linear_relu}) {
    const auto of_weight = [&](const Inputs& in) {
      return mse_loss(layer(in[0], in[1], b, Precision::full), target);
    };
    const auto of_bias = [&](const Inputs& in) {
      return mse_loss(layer(in[0], w, in[1], Precision::full), target);
    };
    EXPECT_LT(largest_gradient_error(of_weight, weight), kTolerance);
    EXPECT_LT(largest_gradient_error(of_bias, bias), kTolerance);
  }
}

TEST(Gradient, OfReluIsRight) {
  const auto function = [](const Inputs& in) {
    return mse_loss(relu(in[0]), smooth_values({3, 5}, 9));
  };
  EXPECT_LT(largest_gradient_error(function, {smooth_values({3, 5}, 0)}), kTolerance);
}

TEST(Gradient, OfMseLossIsRight) {
  const auto function = [](const Inputs& in) { return mse_loss(in[0], smooth_values({3, 5}, 9)); };
  EXPECT_LT(largest_gradient_error(function, {smooth_values({3, 5}, 0)}), kTolerance);
}

TEST(Gradient, OfCrossEntropyLossIsRight) {
  const auto function = [](const Inputs& in) {
    return cross_entropy_loss(in[0], Tensor::from(kLabels, {4}));
  };
  EXPECT_LT(largest_gradient_error(function, {smooth_values({4, 3}, 0)}), kTolerance);
}

TEST(Gradient, OfALossThatIsScaledIsRight) {
  // Every loss must multiply by its own dy.
  const auto function = [](const Inputs& in) {
    return add(mul(mse_loss(in[0], smooth_values({4, 3}, 9)), 0.3),
               mul(cross_entropy_loss(in[0], Tensor::from(kLabels, {4})), -2.5));
  };
  EXPECT_LT(largest_gradient_error(function, {smooth_values({4, 3}, 0)}), kTolerance);
}

TEST(Gradient, OfAWeightUsedInTwoLayersIsRight) {
  const auto function = [](const Inputs& in) {
    const Variable hidden = relu(linear(in[0], in[1], in[2]));
    return mse_loss(linear(hidden, in[1], in[2]), smooth_values({4, 3}, 9));
  };
  EXPECT_LT(largest_gradient_error(function, {smooth_values({4, 3}, 0), smooth_values({3, 3}, 1),
                                              smooth_values({3}, 2)}),
            kTolerance);
}

TEST(Gradient, OfAVariableThatIsBothInputsIsRight) {
  const auto function = [](const Inputs& in) {
    return mse_loss(add(linear(in[0], in[0], Variable()), in[0]), smooth_values({3, 3}, 9));
  };
  EXPECT_LT(largest_gradient_error(function, {smooth_values({3, 3}, 0)}), kTolerance);
}

TEST(Gradient, OfAnMlpIsRight) {
  const auto function = [](const Inputs& in) {
    const Variable hidden = relu(linear(in[0], in[1], in[2]));
    return cross_entropy_loss(linear(hidden, in[3], in[4]), Tensor::from(kLabels, {4}));
  };
  EXPECT_LT(largest_gradient_error(
                function, {smooth_values({4, 3}, 0), smooth_values({6, 3}, 1),
                           smooth_values({6}, 2), smooth_values({3, 6}, 3), smooth_values({3}, 4)}),
            kTolerance);
}

TEST(Gradient, OfSequencesIsRight) {  // x: [2 sequences, 2 tokens, 3]
  const auto function = [](const Inputs& in) {
    const Variable hidden = linear_relu(in[0], in[1], in[2]);
    return cross_entropy_loss(linear(hidden, in[3], Variable()), Tensor::from(kLabels, {2, 2}));
  };
  EXPECT_LT(largest_gradient_error(function, {smooth_values({2, 2, 3}, 0), smooth_values({6, 3}, 1),
                                              smooth_values({6}, 2), smooth_values({3, 6}, 3)}),
            kTolerance);
}

TEST(Gradient, OfReluIsZeroAtZero) {
  const Variable x(Tensor::zeros({}), true);
  backward(relu(x));
  EXPECT_EQ(x.grad().item(), 0.0);
}

TEST(Gradient, WithoutSamplesIsZero) {
  const Variable w(Tensor::zeros({2, 3}), true);
  const Variable b(Tensor::zeros({2}), true);
  backward(mse_loss(linear(Variable(Tensor::empty({0, 3})), w, b), Tensor::empty({0, 2})));
  EXPECT_EQ(w.grad().to_vector<float>(), std::vector<float>(6, 0.0F));
  EXPECT_EQ(b.grad().to_vector<float>(), std::vector<float>(2, 0.0F));
}

/// y = x, whose backward forgets one percent.
Variable forgetful(const Variable& x) {
  return record("forgetful", x.data().clone(), x, [](const Tensor& dy, Tensor& dx, Scale scale) {
    ops::axpby(dy, {.alpha = 0.99 * scale.alpha, .beta = scale.beta}, dx);
  });
}

TEST(GradCheck, NoticesABackwardThatIsOnePercentOff) {
  const auto function = [](const Inputs& in) {
    return mse_loss(forgetful(in[0]), Tensor::zeros({2}, DType::f64));
  };
  EXPECT_GT(largest_gradient_error(function, {smooth_values({2}, 0)}), 1e-3);
}

TEST(Linear, NamesTheWrongInput) {
  const Variable x(Tensor::empty({32, 500}));
  const Variable w(Tensor::empty({10, 512}), true);
  EXPECT_ERROR(linear(x, w, Variable()), "linear: expected x [N, 512], got [32, 500]");
}

}  // namespace
}  // namespace brigade::autograd
