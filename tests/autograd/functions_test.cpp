// Every backward against finite differences in double.
#include <gtest/gtest.h>

#include "autograd/functions/binary.h"
#include "autograd/functions/fused_linear.h"
#include "autograd/functions/layer_norm.h"
#include "autograd/functions/linear.h"
#include "autograd/functions/loss.h"
#include "autograd/functions/reduce.h"
#include "autograd/functions/unary.h"
#include "autograd/node.h"
#include "autograd/variable.h"
#include "core/ops.h"
#include "core/runtime/allocator.h"
#include "core/runtime/context.h"
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
    return mse_loss(fused_linear(in[0], in[1], in[2], Activation::relu), smooth_values({4, 2}, 9));
  };
  EXPECT_LT(largest_gradient_error(with_bias, {smooth_values({4, 3}, 0), smooth_values({2, 3}, 1),
                                               smooth_values({2}, 2)}),
            kTolerance);
  const auto without = [](const Inputs& in) {
    return mse_loss(fused_linear(in[0], in[1], Variable(), Activation::relu),
                    smooth_values({4, 2}, 9));
  };
  EXPECT_LT(largest_gradient_error(without, {smooth_values({4, 3}, 0), smooth_values({2, 3}, 1)}),
            kTolerance);
}

TEST(Gradient, OfLinearWithGeluIsRight) {
  // And of a linear layer behind it, which computes the result of the GELU again.
  const auto two_layers = [](const Inputs& in) {
    const Variable hidden = fused_linear(in[0], in[1], in[2], Activation::gelu);
    return mse_loss(fused_linear(hidden, in[3], Variable(), Activation::none),
                    smooth_values({2, 2, 2}, 9));
  };
  EXPECT_LT(
      largest_gradient_error(two_layers, {smooth_values({2, 2, 3}, 0), smooth_values({5, 3}, 1),
                                          smooth_values({5}, 2), smooth_values({2, 5}, 3)}),
      kTolerance);
}

TEST(Gradient, OfSeveralUsesOfAComputedAgainTensorIsRight) {
  const auto plain = [](const Variable& x, const Variable& w) {
    return fused_linear(x, w, Variable(), Activation::none);
  };
  const auto loss = [&plain](const Inputs& in) {
    const Variable norm =
        layer_norm(fused_linear(in[0], in[1], Variable(), Activation::gelu), in[2], in[3]);
    return mse_loss(plain(norm, in[4]) * plain(norm, in[5]) + norm, smooth_values({4, 5}, 9));
  };
  EXPECT_LT(largest_gradient_error(
                loss, {smooth_values({4, 3}, 0), smooth_values({5, 3}, 1), smooth_values({5}, 2),
                       smooth_values({5}, 3), smooth_values({5, 5}, 4), smooth_values({5, 5}, 5)}),
            kTolerance);
}

/// The gradients of x, W, b and V of a layer W, a GELU and a layer V, and what the layers keep.
struct TwoLayers {
  explicit TwoLayers(bool fused) {
    const Inputs in{
        Variable(smooth_values({64, 32}, 0), true), Variable(smooth_values({48, 32}, 1), true),
        Variable(smooth_values({48}, 2), true), Variable(smooth_values({8, 48}, 3), true)};
    const CachingAllocator& memory = *Context::current().allocator(Device());
    const std::size_t before = memory.stats().in_use;
    Variable loss;
    {
      const Variable hidden = fused ? fused_linear(in[0], in[1], in[2], Activation::gelu)
                                    : gelu(linear(in[0], in[1], in[2]));
      loss = sum(fused_linear(hidden, in[3], Variable(), Activation::none));
    }
    kept = memory.stats().in_use - before;
    loss.backward();
    for (const Variable& leaf : in) {
      gradients.push_back(leaf.grad().to_vector<double>());
    }
  }

  std::size_t kept = 0;
  std::vector<std::vector<double>> gradients;
};

TEST(LinearWithGelu, HasTheSameBitsAndKeepsOneTensorLess) {
  const TwoLayers fused(true);
  const TwoLayers plain(false);
  EXPECT_EQ(fused.gradients, plain.gradients);
  const std::size_t hidden = 64 * 48 * sizeof(double);
  EXPECT_EQ(plain.kept - fused.kept, hidden);
}

/// Keeps the gradient of `of` as soon as there is one.
struct Holder final : GradListener {
  explicit Holder(Variable variable) : of(std::move(variable)) {}
  void on_grad_ready(std::size_t /*index*/) override {}
  void on_node_end() override {
    if (!held.defined()) {
      held = of.grad();
    }
  }
  Variable of;
  Tensor held;
};

TEST(FusedLinear, WritesOverNoGradientThatSomebodyHolds) {
  const Variable w(Tensor::from(std::vector<float>{1, -1}, {2, 1}), true);
  const Variable one(Tensor::from(std::vector<float>{1}, {1, 1}));
  const Variable y = fused_linear(one, w, Variable(), Activation::relu);  // (1, 0)
  Holder holder(y);
  const ListenerHandle handle = w.attach_listener(holder, 0);
  sum(y + y).backward();
  EXPECT_EQ(holder.held.to_vector<float>(), (std::vector<float>{2, 2}));
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{2, 0}));
}

TEST(SavedTensor, OfALayerNormIsComputedAgain) {
  const Tensor values = smooth_values({64, 32}, 0);
  const Variable w(smooth_values({8, 32}, 1), true);
  const Variable scale(smooth_values({32}, 2), true);
  const Variable shift(smooth_values({32}, 3), true);
  const auto gradient_of = [&](bool keep_values) {
    w.zero_grad();
    const Variable x(values, true);
    const Variable norm = layer_norm(x, scale, shift);
    const Tensor again = norm.saved()();
    EXPECT_EQ(again.to_vector<double>(), norm.data().to_vector<double>());
    EXPECT_NE(again.bytes(), norm.data().bytes());
    if (keep_values) {
      norm.set_recompute(nullptr);
    }
    sum(fused_linear(norm, w, Variable(), Activation::none)).backward();
    return w.grad().to_vector<double>();
  };
  EXPECT_EQ(gradient_of(false), gradient_of(true));
}

template <Activation activation>
Variable fused(const Variable& x, const Variable& w, const Variable& b) {
  return fused_linear(x, w, b, activation);
}

TEST(Gradient, OfLinearIsRightWhereOnlyOneParameterWantsOne) {
  const Variable w(smooth_values({2, 3}, 1));
  const Variable b(smooth_values({2}, 2));
  const Tensor target = smooth_values({4, 2}, 9);
  const std::vector<Tensor> weight{smooth_values({4, 3}, 0), w.data()};
  const std::vector<Tensor> bias{smooth_values({4, 3}, 0), b.data()};
  for (const auto layer : {linear, fused<Activation::relu>, fused<Activation::gelu>}) {
    const auto of_weight = [&](const Inputs& in) {
      return mse_loss(layer(in[0], in[1], b), target);
    };
    const auto of_bias = [&](const Inputs& in) { return mse_loss(layer(in[0], w, in[1]), target); };
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
    return cross_entropy(in[0], Tensor::from(kLabels, {4}));
  };
  EXPECT_LT(largest_gradient_error(function, {smooth_values({4, 3}, 0)}), kTolerance);
}

TEST(Gradient, OfALossThatIsScaledIsRight) {
  // Every loss must multiply by its own dy.
  const auto function = [](const Inputs& in) {
    return add(mul(mse_loss(in[0], smooth_values({4, 3}, 9)), 0.3),
               mul(cross_entropy(in[0], Tensor::from(kLabels, {4})), -2.5));
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
    return cross_entropy(linear(hidden, in[3], in[4]), Tensor::from(kLabels, {4}));
  };
  EXPECT_LT(largest_gradient_error(
                function, {smooth_values({4, 3}, 0), smooth_values({6, 3}, 1),
                           smooth_values({6}, 2), smooth_values({3, 6}, 3), smooth_values({3}, 4)}),
            kTolerance);
}

TEST(Gradient, OfSequencesIsRight) {  // x: [2 sequences, 2 tokens, 3]
  const auto function = [](const Inputs& in) {
    const Variable hidden = fused_linear(in[0], in[1], in[2], Activation::relu);
    return cross_entropy(linear(hidden, in[3], Variable()), Tensor::from(kLabels, {2, 2}));
  };
  EXPECT_LT(largest_gradient_error(function, {smooth_values({2, 2, 3}, 0), smooth_values({6, 3}, 1),
                                              smooth_values({6}, 2), smooth_values({3, 6}, 3)}),
            kTolerance);
}

TEST(Gradient, OfReluIsZeroAtZero) {
  const Variable x(Tensor::zeros({}), true);
  relu(x).backward();
  EXPECT_EQ(x.grad().item(), 0.0);
}

TEST(Gradient, WithoutSamplesIsZero) {
  const Variable w(Tensor::zeros({2, 3}), true);
  const Variable b(Tensor::zeros({2}), true);
  mse_loss(linear(Variable(Tensor::empty({0, 3})), w, b), Tensor::empty({0, 2})).backward();
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
