#include "autograd/functions/dropout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/autograd/backward_from.h"
#include "tests/support/expect_error.h"
#include "tests/support/grad_check.h"

namespace brigade::autograd {
namespace {

using Floats = std::vector<float>;

// The stream's first words are Philox's published answer (tests/core/random_test.cpp), as numbers
// in [0, 1): 0.399, 0.881, 0.736, 0.605.
constexpr RandomStream kStream{.seed = 0, .sequence = 0};

TEST(Dropout, DropsWhereTheStreamIsBelowPAndScalesTheRest) {
  const Variable x = leaf({1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(values(dropout(x, 0.5, true, kStream)), (Floats{0, 4, 6, 8}));
  const Variable y = dropout(x, 0.75, true, kStream);
  EXPECT_EQ(y.shape(), (Shape{2, 2}));
  EXPECT_EQ(values(y), (Floats{0, 8, 0, 0}));
  backward_from(y, {1, 1, 1, 1});
  EXPECT_EQ(gradient(x), (Floats{0, 4, 0, 0})) << "the same mask";
}

TEST(Dropout, DropsTheFractionPAndOtherElementsInAnotherStream) {
  const std::int64_t n = 100'001;
  const Variable x(Tensor::from(Floats(static_cast<std::size_t>(n), 1.0F), {n}));
  const Floats first = values(dropout(x, 0.3, true, {.seed = 1, .sequence = 5}));
  const Floats second = values(dropout(x, 0.3, true, {.seed = 1, .sequence = 6}));
  EXPECT_NEAR(static_cast<double>(std::ranges::count(first, 0.0F)), 0.3 * 100'001, 600);
  const Floats again = values(dropout(x, 0.3, true, {.seed = 1, .sequence = 5}));
  EXPECT_EQ(first, again);
  std::size_t equal = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    equal += first[i] == second[i] ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(equal), (0.3 * 0.3 + 0.7 * 0.7) * 100'001, 700);
}

TEST(Dropout, IsTheIdentityOutsideTrainingAndForPZero) {
  const Variable x = leaf({1, 2}, {2});
  EXPECT_EQ(dropout(x, 0.5, false, kStream).grad_state(), x.grad_state());
  EXPECT_EQ(dropout(x, 0.0, true, kStream).grad_state(), x.grad_state());
}

TEST(Dropout, LetsNoNanThroughWhereItDrops) {
  const Variable x = leaf({std::numeric_limits<float>::quiet_NaN(), 1, 1, 1}, {4});
  EXPECT_EQ(values(dropout(x, 0.5, true, kStream)), (Floats{0, 2, 2, 2}));
}

TEST(Dropout, HasTheRightGradient) {
  const auto function = [](const std::vector<Variable>& in) {
    const Variable y = dropout(in[0], 0.4, true, {.seed = 3, .sequence = 1});
    return mse_loss(dropout(y, 0.4, true, {.seed = 3, .sequence = 2}), smooth_values({3, 7}, 9));
  };
  EXPECT_LT(largest_gradient_error(function, {smooth_values({3, 7}, 0)}), 1e-8);
}

TEST(Dropout, NamesAPThatIsNoProbability) {
  const Variable x = leaf({1}, {1});
  EXPECT_ERROR(dropout(x, 1.0, true, kStream), "dropout: expected p in [0, 1), got 1");
  EXPECT_ERROR(dropout(x, -0.5, false, kStream), "dropout: expected p in [0, 1), got -0.5");
}

TEST(Dropout, DrawsAFreshStreamPerCallThatManualSeedRepeats) {
  const Variable x(Tensor::from(std::vector<float>(64, 1.0F), {64}));
  const auto values = [&] { return dropout(x, 0.5).data().to_vector<float>(); };
  manual_seed(3);
  const std::vector<float> first = values();
  EXPECT_NE(values(), first);
  manual_seed(3);
  EXPECT_EQ(values(), first);
}

TEST(Dropout, DoesNotShiftTheStreamsOfParameters) {
  const Variable x(Tensor::zeros({4}));
  manual_seed(3);
  dropout(x, 0.5);
  EXPECT_EQ(next_parameter_stream().sequence, sequences::kParameters);
}

}  // namespace
}  // namespace brigade::autograd
