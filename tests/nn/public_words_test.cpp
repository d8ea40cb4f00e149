#include <brigade/brigade.h>
#include <gtest/gtest.h>

#include <cmath>

using namespace brigade;  // as the programs in apps/quickstart do

namespace {

TEST(PublicWords, AreCalledUnqualified) {
  const Variable x(Tensor::from(std::vector<float>{1, 2, 3, 4}, {2, 2}), /*requires_grad=*/true);
  const Variable row(Tensor::from(std::vector<float>{1, 2}, {2}));
  const Tensor indices = Tensor::from(std::vector<std::int64_t>{1, 0}, {2});
  const std::vector<Variable> results{add(x, x),
                                      sub(x, 1),
                                      mul(2, x),
                                      div(x, row),
                                      x + 1,
                                      1 - x,
                                      x * x,
                                      row / x,
                                      -x,
                                      neg(x),
                                      exp(x),
                                      log(x),
                                      sqrt(x),
                                      square(x),
                                      tanh(x),
                                      sigmoid(x),
                                      gelu(x),
                                      relu(x),
                                      softmax(x),
                                      log_softmax(x, 0),
                                      matmul(x, x),
                                      linear(x, x, row),
                                      layer_norm(x, row, row),
                                      dropout(x, 0.5),
                                      embedding(indices, x),
                                      reshape(x, {2, -1}),
                                      transpose(x, 0, 1),
                                      permute(x, {1, 0}),
                                      concat({slice(x, 0, 0, 1), slice(x, 0, 1, 2)})};
  for (const Variable& y : results) {
    EXPECT_EQ(y.shape(), (Shape{2, 2}));
    EXPECT_TRUE(y.requires_grad());
  }
  EXPECT_EQ(sum(x).item(), 10);
  EXPECT_EQ(mean(x).item(), 2.5F);
  EXPECT_EQ(max(x).item(), 4);
}

TEST(PublicWords, StandBesideThoseOfTheMathLibrary) {
  EXPECT_EQ(sqrt(4.0), 2.0);
  EXPECT_EQ(exp(0.0), 1.0);
}

}  // namespace
