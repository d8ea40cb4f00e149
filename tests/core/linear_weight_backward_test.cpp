// The gradients of a linear layer's parameters, computed together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/dispatch.h"
#include "core/ops.h"
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

const std::vector<float> kDz{1, 2, 3, 4, 5, 6};       // [2, 3]
const std::vector<float> kX{1, -1, 2, 0.5F};          // [2, 2]
const std::vector<float> kDw{9, 1, 12, 0.5F, 15, 0};  // [3, 2]
const std::vector<float> kDb{5, 7, 9};

TEST(LinearWeightBackward, MultipliesTheTransposedGradientAndSumsItsColumns) {
  Tensor dw = poisoned({3, 2});
  Tensor db = poisoned({3});
  ops::linear_weight_backward(f32(kDz, {2, 3}), f32(kX, {2, 2}), {}, dw, {}, db);
  EXPECT_EQ(values(dw), kDw);
  EXPECT_EQ(values(db), kDb);
}

TEST(LinearWeightBackward, MeetsEachDestinationByItsOwnScale) {
  Tensor dw = f32({100, 200, 300, 400, 500, 600}, {3, 2});
  Tensor db = f32({10, 20, 30}, {3});
  ops::linear_weight_backward(f32(kDz, {2, 3}), f32(kX, {2, 2}), {.alpha = 2.0, .beta = 1.0}, dw,
                              {.alpha = 3.0, .beta = 0.5}, db);
  EXPECT_THAT(values(dw), ElementsAre(118, 202, 324, 401, 530, 600));
  EXPECT_THAT(values(db), ElementsAre(20, 31, 42));
}

TEST(LinearWeightBackward, OverwritesOneWhereItAddsToTheOther) {
  Tensor dw = poisoned({3, 2});
  Tensor db = f32({10, 20, 30}, {3});
  ops::linear_weight_backward(f32(kDz, {2, 3}), f32(kX, {2, 2}), {}, dw,
                              {.alpha = 1.0, .beta = 1.0}, db);
  EXPECT_EQ(values(dw), kDw);
  EXPECT_THAT(values(db), ElementsAre(15, 27, 39));
  Tensor sum = f32(kDw, {3, 2});
  Tensor fresh = poisoned({3});
  ops::linear_weight_backward(f32(kDz, {2, 3}), f32(kX, {2, 2}), {.alpha = 1.0, .beta = 1.0}, sum,
                              {.alpha = 0.5, .beta = 0.0}, fresh);
  EXPECT_THAT(values(sum), ElementsAre(18, 2, 24, 1, 30, 0));
  EXPECT_THAT(values(fresh), ElementsAre(2.5F, 3.5F, 4.5F));
}

TEST(LinearWeightBackward, HasTheBitsOfGemmAndColumnSum) {
  for (const std::int64_t batch : {1, 7, 64}) {
    Tensor dz = Tensor::empty({batch, 33});
    Tensor x = Tensor::empty({batch, 17});
    ops::uniform({.seed = 1, .sequence = 1, .low = -1.0, .high = 1.0}, dz);
    ops::uniform({.seed = 1, .sequence = 2, .low = -1.0, .high = 1.0}, x);
    Tensor dw = poisoned({33, 17});
    Tensor db = poisoned({33});
    Tensor product = poisoned({33, 17});
    Tensor sums = poisoned({33});
    ops::linear_weight_backward(dz, x, {}, dw, {}, db);
    ops::gemm(dz, Trans::yes, x, Trans::no, {}, product);
    ops::column_sum(dz, {}, sums);
    EXPECT_EQ(values(dw), values(product)) << batch;
    EXPECT_EQ(values(db), values(sums)) << batch;
  }
}

TEST(LinearWeightBackward, OfNoSamplesIsZero) {
  // On a rank without samples: it must still be a number, because it is all-reduced.
  Tensor dw = poisoned({3, 2});
  Tensor db = poisoned({3});
  ops::linear_weight_backward(Tensor::empty({0, 3}), Tensor::empty({0, 2}), {}, dw, {}, db);
  EXPECT_THAT(values(dw), Each(0.0F));
  EXPECT_THAT(values(db), Each(0.0F));
  dw = f32(kDw, {3, 2});
  db = f32(kDb, {3});
  ops::linear_weight_backward(Tensor::empty({0, 3}), Tensor::empty({0, 2}),
                              {.alpha = 1.0, .beta = 1.0}, dw, {.alpha = 1.0, .beta = 1.0}, db);
  EXPECT_EQ(values(dw), kDw);
  EXPECT_EQ(values(db), kDb);
}

TEST(LinearWeightBackward, LetsANaNReachItsOwnOutputAlone) {
  Tensor dw = Tensor::empty({3, 2});
  Tensor db = Tensor::empty({3});
  ops::linear_weight_backward(f32({1, 2, 3, 4, kNaN, 6}, {2, 3}), f32(kX, {2, 2}), {}, dw, {}, db);
  const testing::Matcher<float> nan = testing::NanSensitiveFloatEq(kNaN);
  EXPECT_THAT(values(dw), ElementsAre(9, 1, nan, nan, 15, 0));
  EXPECT_THAT(values(db), ElementsAre(5, nan, 9));
}

TEST(LinearWeightBackward, AlsoWorksInDouble) {
  const auto f64 = [](const std::vector<double>& numbers, const Shape& shape) {
    return Tensor::from(numbers, shape);
  };
  Tensor dw = Tensor::empty({1, 2}, DType::f64);
  Tensor db = Tensor::empty({1}, DType::f64);
  ops::linear_weight_backward(f64({1, 1e-12}, {2, 1}), f64({1, 2, 1, 0}, {2, 2}), {}, dw, {}, db);
  EXPECT_THAT(dw.to_vector<double>(), ElementsAre(1.0 + 1e-12, 2.0));
  EXPECT_THAT(db.to_vector<double>(), ElementsAre(1.0 + 1e-12));
}

TEST(LinearWeightBackward, NamesWhatDoesNotFit) {
  const Tensor dz = Tensor::zeros({2, 3});
  const Tensor x = Tensor::zeros({2, 4});
  Tensor dw = Tensor::empty({3, 4});
  Tensor db = Tensor::empty({3});
  const auto backward = [](const Tensor& a, const Tensor& b, Tensor& c, Tensor& d) {
    ops::linear_weight_backward(a, b, {}, c, {}, d);
  };
  EXPECT_ERROR(backward(dz, Tensor::zeros({4, 2}), dw, db),
               "linear_weight_backward: expected x [2, in], got [4, 2]");
  EXPECT_ERROR(backward(dz, Tensor::zeros({2}), dw, db),
               "linear_weight_backward: expected x [2, in], got [2]");
  EXPECT_ERROR(backward(Tensor::zeros({3}), x, dw, db),
               "linear_weight_backward: expected dz with 2 dimensions, got [3]");
  Tensor transposed = Tensor::empty({4, 3});
  EXPECT_ERROR(backward(dz, x, transposed, db),
               "linear_weight_backward: expected dw [3, 4], got [4, 3]");
  Tensor long_db = Tensor::empty({4});
  EXPECT_ERROR(backward(dz, x, dw, long_db), "linear_weight_backward: expected db [3], got [4]");
  EXPECT_ERROR(backward(dz, Tensor::zeros({2, 4}, DType::f64), dw, db),
               "linear_weight_backward: expected x of dtype f32, got f64");
  Tensor undefined;
  EXPECT_ERROR(backward(dz, x, dw, undefined), "linear_weight_backward: db is undefined");
}

TEST(LinearWeightBackward, IsNotHowTheCpuSumsItsBias) {
  EXPECT_FALSE(ops::sums_bias_with_weight(Tensor::empty({2, 3})))
      << "relu_bias_backward reads dz anyway";
}

}  // namespace
}  // namespace brigade
