#include "optim/lr_schedule.h"

#include <gtest/gtest.h>

#include "core/ops.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/support/expect_error.h"

namespace brigade::optim {
namespace {

using Shape = LrSchedule::Shape;

TEST(LrSchedule, RisesThroughTheWarmUp) {
  const LrSchedule schedule{.lr = 1.0, .warmup = 3, .steps = 10};
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.25);
  EXPECT_DOUBLE_EQ(schedule.at(2), 0.75);
  EXPECT_DOUBLE_EQ(schedule.at(3), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(9), 1.0);
}

TEST(LrSchedule, FallsInALine) {
  const LrSchedule schedule{
      .lr = 2.0, .shape = Shape::linear, .warmup = 2, .steps = 12, .last_fraction = 0.5};
  EXPECT_DOUBLE_EQ(schedule.at(2), 2.0);
  EXPECT_DOUBLE_EQ(schedule.at(7), 1.5);
  EXPECT_DOUBLE_EQ(schedule.at(12), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(100), 1.0) << "and stays there";
}

TEST(LrSchedule, FallsAlongHalfACosine) {
  const LrSchedule schedule{.lr = 1.0, .shape = Shape::cosine, .steps = 6, .last_fraction = 0.0};
  EXPECT_DOUBLE_EQ(schedule.at(0), 1.0);
  EXPECT_NEAR(schedule.at(2), 0.75, 1e-12);  // (1 + cos 60°) / 2
  EXPECT_NEAR(schedule.at(3), 0.5, 1e-12);
  EXPECT_NEAR(schedule.at(4), 0.25, 1e-12);
}

/// A 1 x 2 matrix and a bias of 1, with gradients of 0.
std::vector<autograd::Variable> matrix_and_bias() {
  std::vector<autograd::Variable> parameters{
      autograd::Variable(Tensor::from(std::vector<float>{4, 8}, {1, 2}), true),
      autograd::Variable(Tensor::from(std::vector<float>{2}, {1}), true)};
  for (const autograd::Variable& parameter : parameters) {
    parameter.grad_state()->fill_with_zeros();
  }
  return parameters;
}

TEST(Optimizer, FollowsAnotherLearningRateFromTheNextStepOn) {
  const auto parameters = matrix_and_bias();
  SGD sgd(parameters, {.lr = 1.0});
  EXPECT_EQ(sgd.lr(), 1.0);
  sgd.set_lr(0.25);
  parameters[1].grad_state()->set_grad(Tensor::from(std::vector<float>{4}, {1}));
  sgd.step();
  EXPECT_EQ(parameters[1].data().item(), 1.0);
  EXPECT_ERROR(sgd.set_lr(-1.0), "optimizer: expected lr >= 0, got -1");
}

TEST(Optimizer, DecaysMatricesOnlyIfAskedTo) {
  for (const bool matrices_only : {false, true}) {
    const auto parameters = matrix_and_bias();
    SGD(parameters, {.lr = 1.0, .weight_decay = 0.5, .decay_matrices_only = matrices_only}).step();
    EXPECT_EQ(parameters[0].data().to_vector<float>(), (std::vector<float>{2, 4}));
    EXPECT_EQ(parameters[1].data().item(), matrices_only ? 2.0 : 1.0);
  }
  const auto parameters = matrix_and_bias();
  Adam(parameters, {.lr = 1.0, .weight_decay = 0.5, .decoupled = true, .decay_matrices_only = true})
      .step();
  EXPECT_EQ(parameters[0].data().to_vector<float>(), (std::vector<float>{2, 4}));
  EXPECT_EQ(parameters[1].data().item(), 2.0);
}

}  // namespace
}  // namespace brigade::optim
