#include "core/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace brigade {
namespace {

using ops::Trans;
using test::f32;
using test::kNaN;
using test::poisoned;
using test::values;
using testing::Each;
using testing::ElementsAre;

TEST(Fill, SetsEveryElement) {
  Tensor x = poisoned({3});
  ops::fill(2.5, x);
  EXPECT_THAT(values(x), Each(2.5F));
}

TEST(Axpby, ScalesAndAdds) {
  Tensor y = f32({1, 2, 3}, {3});
  ops::axpby(f32({10, 20, 30}, {3}), {.alpha = 2.0, .beta = -1.0}, y);
  EXPECT_THAT(values(y), ElementsAre(19, 38, 57));
}

TEST(Axpby, DoesNotReadItsDestinationWithBetaZero) {
  Tensor y = poisoned({3});
  ops::axpby(f32({1, 2, 3}, {3}), {.alpha = 0.5, .beta = 0.0}, y);
  EXPECT_THAT(values(y), ElementsAre(0.5F, 1, 1.5F));
}

TEST(Binary, ReadsTheDestinationOnlyIfBetaSaysSo) {
  Tensor y = poisoned({2});
  ops::binary(BinaryOp::add, f32({1, 2}, {2}), f32({10, 20}, {2}), {.alpha = 2.0}, y);
  EXPECT_THAT(values(y), ElementsAre(22, 44));
  ops::binary(BinaryOp::mul, f32({3}, {}), f32({1, 2}, {2}), {.alpha = 1.0, .beta = 0.5}, y);
  EXPECT_THAT(values(y), ElementsAre(14, 28));
}

TEST(Binary, MayOverwriteAnOperand) {
  Tensor x = f32({1, 2, 3, 4}, {2, 2});
  ops::binary(BinaryOp::sub, f32({10, 20}, {2}), x, {}, x);
  EXPECT_THAT(values(x), ElementsAre(9, 18, 7, 16));
}

TEST(SumTo, SumsOverEveryGroupOfBroadcastDimensions) {
  const Tensor x = f32({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {2, 3, 1, 2});
  Tensor y = poisoned({3, 1, 1});
  ops::sum_to(x, {.alpha = 0.5}, y);
  EXPECT_THAT(values(y), ElementsAre(9, 13, 17));
  Tensor row = f32({100, 200}, {2});
  ops::sum_to(x, {.alpha = 1.0, .beta = 1.0}, row);
  EXPECT_THAT(values(row), ElementsAre(136, 242));
  Tensor same = poisoned({2, 3, 1, 2});
  ops::sum_to(x, {.alpha = -1.0}, same);
  EXPECT_EQ(values(same)[11], -12.0F);
}

TEST(Gemm, AddsAnEmptySumToWhatIsThere) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Tensor c = f32({kInfinity, 3}, {1, 2});
  ops::gemm(Tensor::empty({1, 0}), Trans::no, Tensor::empty({0, 2}), Trans::no,
            {.alpha = 1.0, .beta = 2.0}, c);
  EXPECT_THAT(values(c), ElementsAre(kInfinity, 6));
}

TEST(Gemm, MultipliesRowMajorMatrices) {
  Tensor c = poisoned({2, 2});
  ops::gemm(f32({1, 2, 3, 4, 5, 6}, {2, 3}), Trans::no, f32({1, 0, 0, 1, 2, -1}, {3, 2}), Trans::no,
            {}, c);
  EXPECT_THAT(values(c), ElementsAre(7, -1, 16, -1));
}

TEST(Gemm, ReadsTransposedOperands) {
  // The operands of the test before, each stored the other way round.
  Tensor c = poisoned({2, 2});
  ops::gemm(f32({1, 4, 2, 5, 3, 6}, {3, 2}), Trans::yes, f32({1, 0, 2, 0, 1, -1}, {2, 3}),
            Trans::yes, {}, c);
  EXPECT_THAT(values(c), ElementsAre(7, -1, 16, -1));
}

TEST(Gemm, AddsToItsDestinationTimesBeta) {
  Tensor c = f32({100, 200}, {1, 2});
  ops::gemm(f32({1, 2}, {1, 2}), Trans::no, f32({1, 2, 3, 4}, {2, 2}), Trans::no,
            {.alpha = 0.5, .beta = 0.25}, c);
  EXPECT_THAT(values(c), ElementsAre(28.5F, 55));
}

TEST(Gemm, OverwritesWithAnEmptySum) {
  // dW of a rank without samples: it must still be a number, because it is all-reduced.
  Tensor c = poisoned({2, 3});
  ops::gemm(f32({}, {0, 2}), Trans::yes, f32({}, {0, 3}), Trans::no, {}, c);
  EXPECT_THAT(values(c), Each(0.0F));
}

TEST(Gemm, KeepsItsDestinationWhenAnEmptySumIsAdded) {
  Tensor c = f32({1, 2}, {2, 1});
  ops::gemm(f32({}, {0, 2}), Trans::yes, f32({}, {0, 1}), Trans::no, {.alpha = 1.0, .beta = 1.0},
            c);
  EXPECT_THAT(values(c), ElementsAre(1, 2));
}

TEST(Gemm, RefusesShapesThatDoNotMeet) {
  Tensor c = Tensor::empty({2, 2});
  EXPECT_ERROR(ops::gemm(Tensor::zeros({2, 3}), Trans::no, Tensor::zeros({2, 3}), Trans::no, {}, c),
               "gemm: expected b [3, 3], got [2, 3]");
  EXPECT_ERROR(ops::gemm(Tensor::zeros({2, 3}), Trans::no, Tensor::zeros({3, 4}), Trans::no, {}, c),
               "gemm: expected c [2, 4], got [2, 2]");
}

TEST(Linear, MultipliesByTheTransposedWeightAndAddsTheBias) {
  const Tensor x = f32({1, 2, 3, 4}, {2, 2});
  const Tensor w = f32({1, 0, 0, 1, 1, 1}, {3, 2});
  Tensor y = poisoned({2, 3});
  ops::linear(x, w, f32({10, 20, 30}, {3}), y);
  EXPECT_THAT(values(y), ElementsAre(11, 22, 33, 13, 24, 37));
}

TEST(Linear, WorksWithoutBias) {
  Tensor y = poisoned({1, 1});
  ops::linear(f32({3, 4}, {1, 2}), f32({2, 10}, {1, 2}), Tensor(), y);
  EXPECT_THAT(values(y), ElementsAre(46));
}

TEST(Linear, AcceptsNoSamples) {
  Tensor y = Tensor::empty({0, 3});
  ops::linear(Tensor::empty({0, 2}), Tensor::zeros({3, 2}), Tensor::zeros({3}), y);
}

TEST(Linear, NamesTheWrongInputShape) {
  Tensor y = Tensor::empty({32, 10});
  EXPECT_ERROR(ops::linear(Tensor::empty({32, 500}), Tensor::empty({10, 512}), Tensor(), y),
               "linear: expected x [N, 512], got [32, 500]");
}

TEST(Linear, NamesTheWrongBiasShapeTypeAndOutput) {
  const Tensor x = Tensor::empty({4, 2});
  const Tensor w = Tensor::empty({3, 2});
  Tensor y = Tensor::empty({4, 3});
  EXPECT_ERROR(ops::linear(x, w, Tensor::empty({4}), y), "linear: expected b [3], got [4]");
  EXPECT_ERROR(ops::linear(x, w, Tensor::empty({3}, DType::f64), y),
               "linear: expected b of dtype f32, got f64");
  Tensor small = Tensor::empty({4, 2});
  EXPECT_ERROR(ops::linear(x, w, Tensor(), small), "linear: expected y [4, 3], got [4, 2]");
  EXPECT_ERROR(ops::linear(x, Tensor(), Tensor(), y), "linear: w is undefined");
}

TEST(ColumnSum, SumsEachColumn) {
  Tensor sums = poisoned({2});
  ops::column_sum(f32({1, 2, 3, 4, 5, 6}, {3, 2}), {.alpha = 0.5, .beta = 0.0}, sums);
  EXPECT_THAT(values(sums), ElementsAre(4.5F, 6));
}

TEST(ColumnSum, AddsToItsDestination) {
  Tensor sums = f32({100, 200}, {2});
  ops::column_sum(f32({1, 2, 3, 4}, {2, 2}), {.alpha = 1.0, .beta = 1.0}, sums);
  EXPECT_THAT(values(sums), ElementsAre(104, 206));
}

TEST(ColumnSum, ScalesItsDestinationByBeta) {
  Tensor sums = f32({100, 200}, {2});
  ops::column_sum(f32({1, 2}, {1, 2}), {.alpha = 1.0, .beta = 0.5}, sums);
  EXPECT_THAT(values(sums), ElementsAre(51, 102));
}

TEST(ColumnSum, OfManyRowsKeepsSmallTermsBesideALargeOne) {
  constexpr std::int64_t kRows = 5000;
  constexpr float kLarge = 1U << 24U;  // f32 has no number between this and the next but one
  Tensor x = Tensor::empty({kRows, 2});
  ops::fill(1.0, x);
  x.data<float>()[0] = kLarge;
  Tensor sums = poisoned({2});
  ops::column_sum(x, {}, sums);
  EXPECT_GT(values(sums)[0], kLarge + 3900) << "those of the first 1024 rows may be lost";
  EXPECT_EQ(values(sums)[1], kRows);
}

TEST(ColumnSum, IsZeroWithoutRows) {
  Tensor sums = poisoned({2});
  ops::column_sum(Tensor::empty({0, 2}), {}, sums);
  EXPECT_THAT(values(sums), Each(0.0F));
}

TEST(Relu, CutsOffNegativeValuesAndLetsNanPass) {
  Tensor y = poisoned({4});
  ops::unary(UnaryOp::relu, f32({-1, 0, 2, kNaN}, {4}), y);
  EXPECT_THAT(values(y), ElementsAre(0, 0, 2, testing::NanSensitiveFloatEq(kNaN)));
}

TEST(ReluBackward, LetsTheGradientPassWhereTheOutputIsPositive) {
  Tensor dx = poisoned({3});
  ops::unary_backward(UnaryOp::relu, f32({10, 20, 30}, {3}), f32({0, 1, 0.5F}, {3}), {}, dx);
  EXPECT_THAT(values(dx), ElementsAre(0, 20, 30));
}

TEST(ReluBackward, AddsToItsDestination) {
  Tensor dx = f32({1, 1}, {2});
  ops::unary_backward(UnaryOp::relu, f32({10, 20}, {2}), f32({0, 1}, {2}),
                      {.alpha = 0.5, .beta = 1.0}, dx);
  EXPECT_THAT(values(dx), ElementsAre(1, 11));
}

TEST(Uniform, DrawsTheNumbersOfItsSequence) {
  Tensor x = poisoned({1000});
  ops::uniform({.stream = {.seed = 3, .sequence = 5}, .low = -0.25, .high = 0.75}, x);
  const std::vector<float> drawn = values(x);
  EXPECT_THAT(drawn, Each(testing::AllOf(testing::Ge(-0.25F), testing::Lt(0.75F))));
  double sum = 0.0;
  for (const float value : drawn) {
    sum += static_cast<double>(value);
  }
  EXPECT_NEAR(sum / 1000.0, 0.25, 0.03);
}

TEST(Ops, AlsoWorkInDouble) {
  Tensor y = Tensor::empty({1, 2}, DType::f64);
  ops::linear(Tensor::from(std::vector<double>{1, 2}, {1, 2}),
              Tensor::from(std::vector<double>{1e-12, 1, 3, 4}, {2, 2}),
              Tensor::from(std::vector<double>{0, 0}, {2}), y);
  EXPECT_EQ(y.to_vector<double>()[0], 2.0 + 1e-12);
}

TEST(Ops, RefuseMixedTypesAndShapes) {
  Tensor y = Tensor::empty({2});
  EXPECT_ERROR(
      ops::binary(BinaryOp::add, Tensor::empty({2}), Tensor::empty({2}, DType::f64), {}, y),
      "add: expected b of dtype f32, got f64");
  EXPECT_ERROR(ops::binary(BinaryOp::add, Tensor::empty({2}), Tensor::empty({2, 2}), {}, y),
               "add: expected y [2, 2], got [2]");
  EXPECT_ERROR(ops::reduce_sum(y, {.outer = 1, .n = 3, .inner = 1}, {}, y),
               "sum: expected x with 3 elements, got [2]");
  EXPECT_ERROR(ops::unary(UnaryOp::relu, Tensor::empty({3}), y), "unary: expected y [3], got [2]");
  EXPECT_ERROR(ops::axpby(Tensor(), {}, y), "axpby: x is undefined");
}

}  // namespace
}  // namespace brigade
