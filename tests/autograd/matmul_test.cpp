#include "autograd/functions/matmul.h"

#include <gtest/gtest.h>

#include "tests/autograd/backward_from.h"
#include "tests/support/expect_error.h"
#include "tests/support/grad_check.h"

namespace brigade::autograd {
namespace {

using Floats = std::vector<float>;
using Inputs = std::vector<Variable>;

TEST(Matmul, MultipliesTwoMatrices) {
  const Variable a = leaf({1, 2, 3, 4, 5, 6}, {2, 3});
  const Variable b = leaf({1, 0, 0, 1, 2, -1}, {3, 2});
  const Variable y = matmul(a, b);
  EXPECT_EQ(y.shape(), (Shape{2, 2}));
  EXPECT_EQ(values(y), (Floats{7, -1, 16, -1}));
  backward_from(y, {1, 0, 0, 2});
  EXPECT_EQ(gradient(a), (Floats{1, 0, 2, 0, 2, -2}));   // dY Bᵀ
  EXPECT_EQ(gradient(b), (Floats{1, 8, 2, 10, 3, 12}));  // Aᵀ dY
}

TEST(Matmul, MultipliesPairByPairWithEqualLeadingDimensions) {
  const Variable a = leaf({1, 2, 3, 4}, {2, 1, 2});
  const Variable b = leaf({1, 1, 10, 100}, {2, 2, 1});
  const Variable y = matmul(a, b);
  EXPECT_EQ(y.shape(), (Shape{2, 1, 1}));
  EXPECT_EQ(values(y), (Floats{3, 430}));
  backward_from(y, {1, 2});
  EXPECT_EQ(gradient(a), (Floats{1, 1, 20, 200}));
  EXPECT_EQ(gradient(b), (Floats{1, 2, 6, 8}));
}

TEST(Matmul, MultipliesEveryMatrixByOneB) {
  const Variable a = leaf({1, 2, 3, 4}, {2, 1, 2});
  const Variable b = leaf({1, 10}, {2, 1});
  const Variable y = matmul(a, b);
  EXPECT_EQ(y.shape(), (Shape{2, 1, 1}));
  EXPECT_EQ(values(y), (Floats{21, 43}));
  backward_from(y, {1, 2});
  EXPECT_EQ(gradient(a), (Floats{1, 10, 2, 20}));
  EXPECT_EQ(gradient(b), (Floats{7, 10})) << "the sum over the leading dimension";
}

TEST(Matmul, HasTheRightGradients) {
  struct Case {
    Shape a, b, y;
  };
  for (const Case& c :
       {Case{{3, 4}, {4, 2}, {3, 2}}, Case{{2, 3, 4}, {4, 2}, {2, 3, 2}},
        Case{{2, 3, 4}, {2, 4, 2}, {2, 3, 2}}, Case{{2, 2, 3, 4}, {2, 2, 4, 1}, {2, 2, 3, 1}},
        Case{{2, 2, 3, 4}, {4, 1}, {2, 2, 3, 1}}}) {
    const auto function = [&](const Inputs& in) {
      return mse_loss(matmul(in[0], in[1]), smooth_values(c.y, 9));
    };
    EXPECT_LT(largest_gradient_error(function, {smooth_values(c.a, 0), smooth_values(c.b, 1)}),
              1e-8)
        << c.a << " times " << c.b;
  }
}

TEST(Matmul, AddsBothGradientsOfAMatrixThatIsSquared) {
  const auto function = [](const Inputs& in) {
    return mse_loss(matmul(in[0], in[0]), smooth_values({3, 3}, 9));
  };
  EXPECT_LT(largest_gradient_error(function, {smooth_values({3, 3}, 0)}), 1e-8);
}

TEST(Matmul, OfNothingIsEmptyOrZero) {
  const Variable a(Tensor::empty({2, 3, 0}), true);
  const Variable b(Tensor::empty({2, 0, 1}), true);
  const Variable y = matmul(a, b);
  EXPECT_EQ(values(y), Floats(6, 0.0F)) << "the empty sum";
  EXPECT_EQ(matmul(Variable(Tensor::empty({0, 2, 3})), Variable(Tensor::empty({0, 3, 4}))).shape(),
            (Shape{0, 2, 4}));
  const Variable w(Tensor::empty({3, 4}), true);
  mse_loss(matmul(Variable(Tensor::empty({0, 2, 3})), w), Tensor::empty({0, 2, 4})).backward();
  EXPECT_EQ(gradient(w), Floats(12, 0.0F));
}

TEST(Matmul, NamesShapesThatDoNotFit) {
  const auto product = [](const Shape& a, const Shape& b) {
    return matmul(Variable(Tensor::empty(a)), Variable(Tensor::empty(b)));
  };
  const std::string expected =
      "matmul: expected a [..., m, k] and b [k, n], or b [..., k, n] with the leading dimensions "
      "of a, got ";
  EXPECT_ERROR(product({2, 3}, {4, 5}), expected + "[2, 3] and [4, 5]; reshape to one of these");
  EXPECT_ERROR(product({3}, {3, 5}), expected + "[3] and [3, 5]; reshape to one of these");
  EXPECT_ERROR(product({2, 3}, {3}), expected + "[2, 3] and [3]; reshape to one of these");
  EXPECT_ERROR(product({2, 4, 3}, {3, 3, 5}),
               expected + "[2, 4, 3] and [3, 3, 5]; reshape to one of these");
  EXPECT_ERROR(product({4, 3}, {2, 3, 5}),
               expected + "[4, 3] and [2, 3, 5]; reshape to one of these");
  EXPECT_ERROR(matmul(Variable(Tensor::empty({2, 3})), Variable(Tensor::empty({3, 2}, DType::f64))),
               "matmul: expected b of dtype f32, got f64");
}

}  // namespace
}  // namespace brigade::autograd
