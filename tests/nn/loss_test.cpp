#include "nn/loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/variable.h"
#include "tests/support/expect_error.h"

namespace brigade::nn {
namespace {

using autograd::Variable;
using testing::ElementsAre;
using testing::FloatNear;

Variable prediction() {
  return Variable(Tensor::from(std::vector<float>{0.5F, 2, -1, 1, 0, 3}, {2, 3}), true);
}
Tensor labels(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

// The literals are PyTorch's.

TEST(MseLoss, TakesLabelsForTheirOneHotRows) {
  const Variable x = prediction();
  const Variable loss = nn::mse_loss(x, labels({1, 2}));
  EXPECT_FLOAT_EQ(static_cast<float>(loss.data().item()), 7.25F / 6);
  loss.backward();
  EXPECT_THAT(x.grad().to_vector<float>(),
              ElementsAre(FloatNear(0.5F / 3, 1e-6F), FloatNear(1.0F / 3, 1e-6F),
                          FloatNear(-1.0F / 3, 1e-6F), FloatNear(1.0F / 3, 1e-6F), 0,
                          FloatNear(2.0F / 3, 1e-6F)));
}

TEST(MseLoss, OfLabelsEqualsThatOfTheOneHotTensor) {
  const Tensor one_hot = Tensor::from(std::vector<float>{0, 1, 0, 0, 0, 1}, {2, 3});
  EXPECT_EQ(nn::mse_loss(prediction(), labels({1, 2})).data().item(),
            nn::mse_loss(prediction(), one_hot).data().item());
}

TEST(MseLoss, RefusesATargetOfAnotherShape) {
  EXPECT_ERROR(nn::mse_loss(prediction(), Tensor::zeros({3, 2})),
               "mse_loss: expected target [2, 3], got [3, 2]");
}

TEST(MseLoss, RefusesALabelThatIsNoOutput) {
  EXPECT_ERROR(nn::mse_loss(prediction(), labels({1, 3})),
               "labels: expected 0 to 2, got 3 in row 1");
}

TEST(CrossEntropyLoss, AveragesOverTheSamples) {
  const Variable x = prediction();
  const Variable loss = nn::cross_entropy(x, labels({1, 0}));
  EXPECT_NEAR(loss.data().item(), 1.205578658, 1e-6);
  loss.backward();
  EXPECT_THAT(x.grad().to_vector<float>(),
              testing::Pointwise(testing::FloatNear(1e-6F),
                                 std::vector<float>{0.08764520F, -0.10720148F, 0.01955629F,
                                                    -0.44290240F, 0.02100503F, 0.42189737F}));
}

TEST(CrossEntropyLoss, RefusesLabelsOfAnotherShape) {
  const Variable x(Tensor::zeros({2, 3, 5}));
  EXPECT_ERROR(
      nn::cross_entropy(x, Tensor::zeros({3, 2}, DType::i64)),
      "cross_entropy: expected x [..., classes] and labels [...], got [2, 3, 5] and [3, 2]");
}

TEST(CrossEntropyLoss, RefusesFloatingPointTargets) {
  EXPECT_ERROR(nn::cross_entropy(prediction(), Tensor::zeros({2, 3})),
               "cross_entropy: expected labels of dtype i64");
}

}  // namespace
}  // namespace brigade::nn
