// How the kernels behind autograd's shape functions, embedding, layer_norm and dropout store what
// they compute: dst = alpha result + beta dst. tests/autograd says what they compute.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "core/ops.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace brigade {
namespace {

using test::f32;
using test::poisoned;
using test::values;
using Floats = std::vector<float>;

constexpr Scale kScale{.alpha = 2.0, .beta = 0.5};
constexpr std::array<std::size_t, 2> kSwapped{1, 0};

TEST(OpsPermute, StoresAsScaleSays) {
  const Tensor x = f32({1, 2, 3, 4, 5, 6}, {2, 3});
  Tensor y = f32({10, 20, 30, 40, 50, 60}, {3, 2});
  ops::permute(x, kSwapped, kScale, y);
  EXPECT_EQ(values(y), (Floats{7, 18, 19, 30, 31, 42}));
  Tensor fresh = poisoned({3, 2});
  ops::permute(x, kSwapped, {}, fresh);
  EXPECT_EQ(values(fresh), (Floats{1, 4, 2, 5, 3, 6})) << "beta = 0 reads nothing";
}

TEST(OpsSlice, StoresAsScaleSaysAndTouchesNothingElse) {
  const Tensor whole = f32({1, 2, 3, 4, 5, 6}, {2, 3});
  Tensor part = f32({10, 20}, {2, 1});
  ops::read_slice(whole, 1, 1, kScale, part);
  EXPECT_EQ(values(part), (Floats{9, 20}));
  Tensor target = f32({1, 2, 3, 4, 5, 6}, {2, 3});
  ops::write_slice(part, 1, 2, kScale, target);
  EXPECT_EQ(values(target), (Floats{1, 2, 19.5, 4, 5, 43}));
}

TEST(OpsSlice, NamesARangeOutsideTheWhole) {
  const Tensor whole = f32({1, 2, 3}, {3});
  Tensor part = poisoned({2});
  EXPECT_ERROR(ops::read_slice(whole, 0, 2, {}, part),
               "slice: expected a range within 0 and 3 of dimension 0, got 2 to 4");
  Tensor wide = poisoned({3, 2});
  EXPECT_ERROR(ops::read_slice(whole, 0, 0, {}, wide),
               "slice: expected a part of [3] in dimension 0, got [3, 2]");
}

TEST(OpsScaleInPlace, OverwritesNanOnlyWithFactorZero) {
  Tensor x = f32({2, test::kNaN}, {2});
  ops::scale_in_place(0.5, x);
  EXPECT_EQ(values(x)[0], 1);
  EXPECT_TRUE(std::isnan(values(x)[1]));
  ops::scale_in_place(0.0, x);
  EXPECT_EQ(values(x), (Floats{0, 0}));
}

TEST(OpsEmbeddingBackward, ScalesRowsWithoutIndexToo) {
  const Tensor indices = Tensor::from(std::vector<std::int64_t>{2, 0, 2}, {3});
  const Tensor dy = f32({1, 2, 3}, {3, 1});
  Tensor dw = f32({10, 20, 30}, {3, 1});
  ops::embedding_backward(indices, dy, kScale, dw);
  EXPECT_EQ(values(dw), (Floats{9, 10, 23}));
  Tensor fresh = poisoned({3, 1});
  ops::embedding_backward(indices, dy, {}, fresh);
  EXPECT_EQ(values(fresh), (Floats{2, 0, 4}));
}

TEST(OpsLayerNormBackward, StoresAsScaleSays) {
  const Tensor x = f32({0, 4, 0, 4}, {1, 4});  // x̂ = -1, 1, -1, 1
  const Tensor dy = f32({2, 0, 0, 8}, {1, 4});
  const Tensor mean = f32({2}, {1});
  const Tensor rstd = f32({0.5}, {1});
  Tensor dw = f32({10, 10, 10, 10}, {4});
  ops::layer_norm_weight_backward(dy, x, mean, rstd, kScale, dw);
  EXPECT_EQ(values(dw), (Floats{1, 5, 5, 21}));
  Tensor dx = f32({10, 10, 10, 10}, {1, 4});
  ops::layer_norm_input_backward(dy, x, Tensor(), mean, rstd, kScale, dx);
  EXPECT_EQ(values(dx), (Floats{6, 1, 4, 9}));
  Tensor fresh = poisoned({1, 4});
  ops::layer_norm_input_backward(dy, x, Tensor(), mean, rstd, {}, fresh);
  EXPECT_EQ(values(fresh), (Floats{0.5, -2, -0.5, 2}));
}

TEST(OpsLayerNorm, WorksOnRowsLongerThanABlockOfColumns) {
  const std::int64_t cols = 1000;
  const Tensor x = test::numbers({3, cols}, 1);
  const Tensor dy = test::numbers({3, cols}, 2);
  Tensor y = poisoned({3, cols});
  Tensor mean = poisoned({3});
  Tensor rstd = poisoned({3});
  ops::layer_norm(x, Tensor(), Tensor(), 0.0, y, mean, rstd);
  Tensor dw = poisoned({cols});
  ops::layer_norm_weight_backward(dy, x, mean, rstd, {}, dw);
  for (std::int64_t c = 0; c < cols; ++c) {
    double sum = 0.0;
    for (std::int64_t i = c; i < 3 * cols; i += cols) {
      sum += static_cast<double>(dy.data<float>()[i]) * static_cast<double>(y.data<float>()[i]);
    }
    ASSERT_NEAR(dw.data<float>()[c], sum, 1e-5) << c;
  }
}

TEST(OpsDropout, StoresAsScaleSays) {
  // Philox's first words: only the second is above 0.75 (tests/core/random_test.cpp).
  const DropoutArgs args{.stream = {}, .p = 0.75};
  Tensor y = f32({10, 10, 10}, {3});
  ops::dropout(f32({1, 1, 1}, {3}), args, kScale, y);
  EXPECT_EQ(values(y), (Floats{5, 13, 5}));
  Tensor fresh = poisoned({3});
  ops::dropout(f32({1, 1, 1}, {3}), args, {}, fresh);
  EXPECT_EQ(values(fresh), (Floats{0, 4, 0}));
}

TEST(OpsMatmul, StoresAsScaleSaysForEveryMatrix) {
  const Tensor a = f32({1, 2, 3, 4}, {2, 1, 2});
  const Tensor b = f32({1, 1, 10, 100}, {2, 1, 2});
  Tensor c = f32({10, 20}, {2, 1, 1});
  ops::matmul(a, ops::Trans::no, b, ops::Trans::yes, kScale, c);
  EXPECT_EQ(values(c), (Floats{11, 870}));
  Tensor flat = poisoned({2, 1});
  EXPECT_ERROR(ops::matmul(a, ops::Trans::no, b, ops::Trans::yes, {}, flat),
               "matmul: expected a, b and c of one rank, at least 2, got [2, 1, 2], [2, 1, 2] and "
               "[2, 1]");
}

}  // namespace
}  // namespace brigade
