// The gradient of a linear layer's input where that is the output of a ReLU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/ops.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace brigade {
namespace {

using ops::Trans;
using test::f32;
using test::kNaN;
using test::numbers;
using test::poisoned;
using testing::Each;
using testing::ElementsAre;

const std::vector<float> kDz{1, 2, 3, 4};             // [2, 2]
const std::vector<float> kW{1, 10, 100, 2, 20, 200};  // [2, 3]

TEST(LinearInputBackward, IsTheProductWhereTheInputIsPositive) {
  Tensor dx = poisoned({2, 3});
  ops::linear_input_backward(f32(kDz, {2, 2}), f32(kW, {2, 3}), f32({1, 0, 2, 0, 0.5F, 0}, {2, 3}),
                             Tensor(), dx);
  EXPECT_THAT(dx.to_vector<float>(), ElementsAre(5, 0, 500, 0, 110, 0));
}

TEST(LinearInputBackward, HasTheBitsOfTheProductAndOfTheMaskAfterIt) {
  for (const DType factors : {DType::f32, DType::bf16}) {
    const auto factor = [&](const Tensor& x) {
      if (factors == DType::f32) {
        return x;
      }
      Tensor rounded = Tensor::empty(x.shape(), DType::bf16);
      ops::narrow(x, rounded);
      return rounded;
    };
    const Tensor dz = factor(numbers({33, 20}, 1));
    const Tensor w = factor(numbers({20, 41}, 2));
    const Tensor x = numbers({33, 41}, 3);
    Tensor dx = Tensor::empty({33, 41});
    ops::linear_input_backward(dz, w, x, Tensor(), dx);
    Tensor dy = Tensor::empty({33, 41});
    Tensor expected = Tensor::empty({33, 41});
    ops::gemm(dz, Trans::no, w, Trans::no, {}, dy);
    ops::relu_backward(dy, x, {}, expected);
    EXPECT_EQ(dx.to_vector<float>(), expected.to_vector<float>()) << factors;
  }
}

TEST(LinearInputBackward, LetsANaNThroughOnlyWhereTheInputIsPositive) {
  Tensor dx = Tensor::empty({2, 3});
  ops::linear_input_backward(poisoned({2, 2}), f32(kW, {2, 3}),
                             f32({1, 0, 2, kNaN, 0.5F, 0}, {2, 3}), Tensor(), dx);
  const std::vector<float> values = dx.to_vector<float>();
  EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[2]) && std::isnan(values[4]));
  EXPECT_EQ(values[1], 0.0F);
  EXPECT_EQ(values[3], 0.0F) << "as relu_backward, to which NaN is not positive";
  EXPECT_EQ(values[5], 0.0F);
}

TEST(LinearInputBackward, OfAnEmptyBatchOrOfNoOutputsIsNothingOrZero) {
  Tensor none = Tensor::empty({0, 3});
  ops::linear_input_backward(Tensor::empty({0, 2}), f32(kW, {2, 3}), Tensor::empty({0, 3}),
                             Tensor(), none);
  Tensor dx = poisoned({2, 3});
  ops::linear_input_backward(Tensor::empty({2, 0}), Tensor::empty({0, 3}), numbers({2, 3}, 1),
                             Tensor(), dx);
  EXPECT_THAT(dx.to_vector<float>(), Each(0.0F));
}

TEST(LinearInputBackward, NamesWhatDoesNotFit) {
  const Tensor dz = Tensor::zeros({2, 4});
  const Tensor w = Tensor::zeros({4, 3});
  const Tensor x = Tensor::zeros({2, 3});
  Tensor dx = Tensor::empty({2, 3});
  const auto backward = [](const Tensor& a, const Tensor& b, const Tensor& c, Tensor& d) {
    ops::linear_input_backward(a, b, c, Tensor(), d);
  };
  EXPECT_ERROR(backward(Tensor::zeros({2, 5}), w, x, dx),
               "linear_input_backward: expected w [5, 3], got [4, 3]");
  EXPECT_ERROR(backward(Tensor::zeros({4}), w, x, dx),
               "linear_input_backward: expected dz with 2 dimensions, got [4]");
  EXPECT_ERROR(backward(dz, w, Tensor::zeros({2, 4}), dx),
               "linear_input_backward: expected x [2, 3], got [2, 4]");
  EXPECT_ERROR(backward(dz, w, Tensor(), dx), "linear_input_backward: x is undefined");
  Tensor transposed = Tensor::empty({3, 2});
  EXPECT_ERROR(backward(dz, w, x, transposed),
               "linear_input_backward: expected dx [2, 3], got [3, 2]");
  Tensor wide = Tensor::empty({2, 3}, DType::f64);
  EXPECT_ERROR(backward(dz, w, x, wide),
               "linear_input_backward: expected dx of dtype f32, got f64");
  EXPECT_ERROR(ops::linear_input_backward(dz, w, x, Tensor::zeros({2, 3}, DType::u8), dx),
               "linear_input_backward: expected mask [2, 16], got [2, 3]");
}

TEST(ReluMask, HasSixteenBytesPerHundredAndTwentyEightColumns) {
  EXPECT_EQ(mask_bytes(0), 0);
  EXPECT_EQ(mask_bytes(1), 16);
  EXPECT_EQ(mask_bytes(128), 16);
  EXPECT_EQ(mask_bytes(129), 32);
}

TEST(ReluMask, IsNotMadeOnTheCpuWhichMasksInThePassThatSumsTheBias) {
  Tensor y = Tensor::empty({2, 4});
  EXPECT_FALSE(ops::empty_relu_mask(y).defined());
  const Tensor mask = Tensor::zeros({2, 16}, DType::u8);
  const Tensor x = Tensor::zeros({2, 3});
  const Tensor w = Tensor::zeros({4, 3});
  EXPECT_ERROR(ops::linear(x, w, Tensor(), y, Activation::relu, mask),
               "linear: expected no mask on cpu; use empty_relu_mask");
  EXPECT_ERROR(ops::linear(x, w, Tensor(), y, Activation::none, mask),
               "linear: expected no mask without ReLU");
}

}  // namespace
}  // namespace brigade
