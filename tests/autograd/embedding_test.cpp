#include "autograd/functions/embedding.h"

#include <gtest/gtest.h>

#include "tests/autograd/backward_from.h"
#include "tests/support/expect_error.h"
#include "tests/support/grad_check.h"

namespace brigade::autograd {
namespace {

using Floats = std::vector<float>;

Tensor indices(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

TEST(Embedding, TakesOneRowPerIndex) {
  const Variable w = leaf({0, 1, 10, 11, 20, 21}, {3, 2});
  const Variable y = embedding(indices({2, 0, 2, 2}, {2, 2}), w);
  EXPECT_EQ(y.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(values(y), (Floats{20, 21, 0, 1, 20, 21, 20, 21}));
  backward_from(y, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(gradient(w), (Floats{3, 4, 0, 0, 13, 16})) << "a row without index gets 0";
}

TEST(Embedding, AddsTheGradientsOfARowInTheOrderOfItsPositions) {
  const Variable w = leaf({0}, {1, 1});
  // In this order 1e8 swallows the 1 before it, and then only the 3 remains.
  const Variable y = embedding(indices({0, 0, 0, 0}, {4}), w);
  backward_from(y, {1, 1e8F, -1e8F, 3});
  EXPECT_EQ(gradient(w), (Floats{3}));
}

TEST(Embedding, AddsToWhatABackwardBeforeHasLeft) {
  const Variable w = leaf({0, 0, 0}, {3, 1});
  backward_from(embedding(indices({0, 1}, {2}), w), {1, 2});
  backward_from(embedding(indices({1, 2}, {2}), w), {10, 20});
  EXPECT_EQ(gradient(w), (Floats{1, 12, 20}));
}

TEST(Embedding, HasTheRightGradient) {
  const auto function = [](const std::vector<Variable>& in) {
    return mse_loss(embedding(indices({1, 3, 1, 0, 3, 3}, {2, 1, 3}), in[0]),
                    smooth_values({2, 1, 3, 5}, 9));
  };
  EXPECT_LT(largest_gradient_error(function, {smooth_values({4, 5}, 0)}), 1e-8);
}

TEST(Embedding, OfNoIndicesIsEmptyAndItsGradientZero) {
  const Variable w = leaf({1, 2}, {1, 2});
  const Variable y = embedding(indices({}, {0, 3}), w);
  EXPECT_EQ(y.shape(), (Shape{0, 3, 2}));
  mse_loss(y, Tensor::empty({0, 3, 2})).backward();
  EXPECT_EQ(gradient(w), (Floats{0, 0}));
}

TEST(Embedding, NamesAnIndexOutsideTheVocabulary) {
  const Variable w = leaf({0, 1, 2}, {3, 1});
  EXPECT_ERROR(embedding(indices({0, 3}, {2}), w),
               "embedding: expected indices 0 to 2 (vocabulary of 3), got 3 at position 1");
  EXPECT_ERROR(embedding(indices({-1}, {1}), w),
               "embedding: expected indices 0 to 2 (vocabulary of 3), got -1 at position 0");
}

TEST(Embedding, NamesTheWrongArgument) {
  const Variable w = leaf({0, 1, 2}, {3, 1});
  EXPECT_ERROR(embedding(Tensor::zeros({2}), w),
               "embedding: expected indices of dtype i64, got f32");
  EXPECT_ERROR(embedding(indices({0}, {1}), leaf({1}, {1})),
               "embedding: expected weight [V, D], got [1]");
}

}  // namespace
}  // namespace brigade::autograd
