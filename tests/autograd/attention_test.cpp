#include "autograd/functions/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/functions/binary.h"
#include "autograd/functions/dropout.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/shape.h"
#include "autograd/functions/softmax.h"
#include "core/ops.h"
#include "tests/autograd/backward_from.h"
#include "tests/autograd/probe.h"
#include "tests/support/expect_error.h"
#include "tests/support/grad_check.h"

namespace brigade::autograd {
namespace {

/// 0 where position j <= i, else minus infinity.   [length, length]
Variable causal_mask(std::int64_t length, const Tensor& like) {
  std::vector<double> mask;
  for (std::int64_t i = 0; i < length; ++i) {
    for (std::int64_t j = 0; j < length; ++j) {
      mask.push_back(j <= i ? 0.0 : -std::numeric_limits<double>::infinity());
    }
  }
  const std::vector<float> floats(mask.begin(), mask.end());
  const Shape shape{length, length};
  return Variable(like.dtype() == DType::f64 ? Tensor::from(mask, shape, like.device())
                                             : Tensor::from(floats, shape, like.device()));
}

/// causal_attention with the T x T weights in memory.
Variable composed_attention(const Variable& qkv, std::int64_t heads, DropoutArgs dropped = {}) {
  const Shape shape = ops::attention_shape(qkv.shape(), heads);  // [N, T, W]
  const std::int64_t width = shape[2] / heads;
  // [N, T, 3 heads, D] to [N, 3 heads, T, D]
  const Variable parts =
      permute(reshape(qkv, {shape[0], shape[1], 3 * heads, width}), {0, 2, 1, 3});
  const auto part = [&](std::int64_t i) { return slice(parts, 1, i * heads, (i + 1) * heads); };
  const Variable scores =
      matmul(part(0), transpose(part(1), 2, 3)) / std::sqrt(static_cast<double>(width));
  const Variable weights = dropout(softmax(scores + causal_mask(shape[1], qkv.data())), dropped.p,
                                   /*training=*/true, dropped.stream);
  return reshape(permute(matmul(weights, part(2)), {0, 2, 1, 3}), {shape[0], shape[1], shape[2]});
}

using Floats = std::vector<float>;
using Inputs = std::vector<Variable>;

TEST(Attention, WeighsTheValuesUpToItsPosition) {
  // One head of width 1: q, k, v in each row. Scores of row 1: 2 · 0 and 2 · ln 2 / 2 = ln 2, so
  // weights 1/3 and 2/3.
  const float half_ln2 = std::log(2.0F) / 2.0F;
  const Variable qkv = leaf({5, 0, 3, 2, half_ln2, 9}, {1, 2, 3});
  const Floats y = values(causal_attention(qkv, 1));
  EXPECT_NEAR(y[0], 3.0F, 1e-6);  // sees itself alone
  EXPECT_NEAR(y[1], 7.0F, 1e-5);
}

TEST(Attention, DividesScoresByTheRootOfTheWidth) {
  // Width 4: q · k = 2 ln 3 for the first key, 0 for the second; divided by 2: weights 3/4 and 1/4.
  const float ln3 = std::log(3.0F);
  const Variable qkv = leaf({0, 0, 0, 0, 2 * ln3, 0, 0, 0, 4, 4, 4, 4,  //
                             1, 1, 1, 1, 0,       0, 0, 0, 8, 0, 0, 0},
                            {1, 2, 12});
  const Floats y = values(causal_attention(qkv, 1));
  EXPECT_NEAR(y[4], 5.0F, 1e-5);
  EXPECT_NEAR(y[5], 3.0F, 1e-5);
}

/// Sequences, length, width, heads. Lengths of one block and of several (core/cpu/attention.cpp has
/// blocks of 64 queries and 512 keys).
struct Size {
  std::int64_t sequences, length, width, heads;
};
constexpr Size kSizes[] = {
    {1, 1, 2, 1}, {2, 5, 6, 2}, {1, 64, 4, 1}, {1, 130, 4, 2}, {1, 600, 2, 1}};

void expect_the_same_as_composed(DropoutArgs dropout) {
  for (const auto& [sequences, length, width, heads] : kSizes) {
    const Shape shape{sequences, length, 3 * width};
    const Variable fused_in(smooth_values(shape, 3), true);
    const Variable composed_in(smooth_values(shape, 3), true);
    const Tensor target = smooth_values({sequences, length, width}, 4);
    const Variable fused = causal_attention(fused_in, heads, dropout);
    const Variable composed = composed_attention(composed_in, heads, dropout);
    const auto a = fused.data().to_vector<double>();
    const auto b = composed.data().to_vector<double>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a[i], b[i], 1e-12) << length << " at " << i;
    }
    mse_loss(fused, target).backward();
    mse_loss(composed, target).backward();
    const auto da = fused_in.grad().to_vector<double>();
    const auto db = composed_in.grad().to_vector<double>();
    for (std::size_t i = 0; i < da.size(); ++i) {
      ASSERT_NEAR(da[i], db[i], 1e-14) << length << " at " << i;
    }
  }
}

TEST(Attention, IsTheSameAsComposedOfMatmulAndSoftmax) {
  expect_the_same_as_composed({});
}

TEST(Attention, DropsTheWeightsThatComposedAttentionDrops) {
  expect_the_same_as_composed({.stream = {.seed = 3, .sequence = 7}, .p = 0.3});
}

TEST(Attention, DividesTheWeightsThatItKeeps) {
  // Equal scores. Words 0 to 3 of this stream are 0.399, 0.881, 0.736 and 0.605 (dropout_test.cpp):
  // with p = 0.7, of row 0 the only weight is dropped, and of row 1 the second.
  const Variable qkv = leaf({0, 0, 3, 0, 0, 9}, {1, 2, 3});
  const Floats y = values(causal_attention(qkv, 1, {.stream = {}, .p = 0.7}));
  EXPECT_EQ(y[0], 0.0F);
  EXPECT_NEAR(y[1], 0.5F * 3.0F / 0.3F, 1e-5);
}

TEST(Attention, HasTheRightGradientsWithDropout) {
  const auto loss = [](const Inputs& in) {
    const DropoutArgs dropout{.stream = {.seed = 1, .sequence = 2}, .p = 0.4};
    return mse_loss(causal_attention(in[0], 2, dropout), smooth_values({2, 5, 4}, 9));
  };
  EXPECT_LT(largest_gradient_error(loss, {smooth_values({2, 5, 12}, 0)}), 1e-8);
}

TEST(Attention, HasTheRightGradients) {
  const auto loss = [](const Inputs& in) {
    return mse_loss(causal_attention(in[0], 2), smooth_values({2, 5, 4}, 9));
  };
  EXPECT_LT(largest_gradient_error(loss, {smooth_values({2, 5, 12}, 0)}), 1e-8);
}

TEST(Attention, AddsTheGradientsOfTwoUses) {
  const auto loss = [](const Inputs& in) {
    return mse_loss(causal_attention(in[0], 1) * causal_attention(in[0], 2),
                    smooth_values({1, 3, 2}, 9));
  };
  EXPECT_LT(largest_gradient_error(loss, {smooth_values({1, 3, 6}, 0)}), 1e-8);
}

TEST(Attention, DoesNotOverflowWithLargeScores) {
  const Variable qkv = leaf({100, 100, 1, 100, 99, 3}, {1, 2, 3});
  const Floats y = values(causal_attention(qkv, 1));
  EXPECT_EQ(y[0], 1.0F);
  EXPECT_NEAR(y[1], 1.0F, 1e-6);  // 10,000 against 9,900
}

TEST(Attention, LaterPositionsHaveNoInfluence) {
  Tensor a = smooth_values({1, 70, 6}, 1);
  Tensor b = a.clone();
  Tensor last = b.reshape({70, 6}).rows(69, 1);
  last.copy_from(Tensor::from(std::vector<double>(6, 1000.0), {1, 6}));
  const auto y = causal_attention(Variable(a), 2).data().to_vector<double>();
  const auto changed = causal_attention(Variable(b), 2).data().to_vector<double>();
  for (std::size_t i = 0; i < 69 * 2; ++i) {
    ASSERT_EQ(y[i], changed[i]) << i;
  }
  EXPECT_NE(y.back(), changed.back());
}

TEST(Attention, NamesTheWrongShape) {
  EXPECT_ERROR(
      causal_attention(Variable(Tensor::empty({2, 6})), 1),
      "attention: expected qkv [N, T, 3 W] and heads that divide W, got [2, 6] and 1 heads");
  EXPECT_ERROR(causal_attention(Variable(Tensor::empty({1, 2, 12})), 3),
               "attention: expected qkv [N, T, 3 W] and heads that divide W, got [1, 2, 12] and 3 "
               "heads");
  EXPECT_ERROR(composed_attention(Variable(Tensor::empty({1, 2, 12})), 0),
               "attention: expected qkv [N, T, 3 W] and heads that divide W, got [1, 2, 12] and 0 "
               "heads");
  EXPECT_ERROR(causal_attention(Variable(Tensor::empty({1, 1, 771})), 1),
               "attention: expected heads of at most 256 columns, got [1, 1, 257] in 1 heads");
  EXPECT_ERROR(causal_attention(Variable(Tensor::empty({1, 1, 3})), 1, {.stream = {}, .p = 1.0}),
               "attention: expected a dropout in [0, 1), got 1");
}

}  // namespace
}  // namespace brigade::autograd
