// Optimizer::update_in_backward: the step of plain SGD as alpha and beta of the product that
// computes dW.
#include <gmock/gmock.h>

#include <functional>
#include <string>

#include "autograd/engine.h"
#include "autograd/functions/linear.h"
#include "autograd/functions/mse_loss.h"
#include "core/ops.h"
#include "optim/adam.h"
#include "optim/clip_grad.h"
#include "optim/sgd.h"
#include "tests/support/expect_error.h"
#include "tests/support/small_model.h"

namespace brigade::optim {
namespace {

using autograd::Variable;

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kIn = 4;
constexpr std::int64_t kOut = 3;

Variable loss_of(nn::Module& model, std::int64_t step) {
  const Tensor x = test::data_rows(step * kRows, kRows, kIn, 3);
  const Tensor target = test::data_rows(step * kRows, kRows, kOut, 4);
  return autograd::mse_loss(model.forward(Variable(x)), target);
}

void expect_refusal(const std::function<void()>& call, const std::string& part_of_message) {
  EXPECT_THAT(call, testing::ThrowsMessage<Error>(testing::HasSubstr(part_of_message)));
}

std::vector<float> trained(const SGD::Options& options, bool in_backward) {
  const auto model = test::make_mlp({kIn, 8, 8, kOut});
  SGD optimizer(model->parameters(), options);
  if (in_backward) {
    optimizer.update_in_backward();
  }
  for (std::int64_t step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    autograd::backward(loss_of(*model, step), {.seed = 0.5});
    optimizer.step();
  }
  return autograd::values_of(model->parameters());
}

TEST(UpdateInBackward, TrainsAsStepsAfterBackwardDo) {
  for (const double weight_decay : {0.0, 0.1}) {
    const SGD::Options options{.lr = 0.5, .weight_decay = weight_decay};
    EXPECT_THAT(trained(options, true),
                testing::Pointwise(testing::FloatNear(2e-6F), trained(options, false)));
  }
}

TEST(UpdateInBackward, WritesNoGradient) {
  const auto model = test::make_mlp({kIn, 8, kOut});
  const std::vector<Variable> parameters = model->parameters();
  SGD optimizer(parameters, {.lr = 0.5});
  optimizer.update_in_backward();
  for (const Variable& parameter : parameters) {
    ops::fill(7.0, parameter.grad_state()->grad);
  }
  const std::vector<float> before = autograd::values_of(parameters);
  autograd::backward(loss_of(*model, 0));
  EXPECT_NE(autograd::values_of(parameters), before) << "backward is the step";
  for (const Variable& parameter : parameters) {
    EXPECT_FALSE(parameter.grad().defined()) << parameter.name();
    EXPECT_THAT(parameter.grad_state()->grad.to_vector<float>(), testing::Each(7.0F));
  }
  const std::vector<float> after = autograd::values_of(parameters);
  optimizer.step();
  EXPECT_EQ(autograd::values_of(parameters), after) << "and step() has nothing left to do";
}

/// y = W W x: the second use of W would read what the first has changed.
std::vector<float> shared_weight_after_a_step(bool in_backward) {
  const Variable w(test::data_rows(0, kIn, kIn, 5), /*requires_grad=*/true, "w");
  SGD optimizer({w}, {.lr = 0.5});
  if (in_backward) {
    optimizer.update_in_backward();
  }
  const Variable x(test::data_rows(0, kRows, kIn, 3));
  const Variable y = autograd::linear(autograd::linear(x, w, {}), w, {});
  autograd::backward(autograd::mse_loss(y, test::data_rows(0, kRows, kIn, 4)));
  EXPECT_TRUE(w.grad().defined());
  optimizer.step();
  return w.data().to_vector<float>();
}

TEST(UpdateInBackward, LeavesASharedWeightToStep) {
  EXPECT_EQ(shared_weight_after_a_step(true), shared_weight_after_a_step(false));
}

TEST(UpdateInBackward, LeavesAWeightWithAHookToStep) {
  const auto model = test::make_mlp({kIn, kOut});
  const Variable w = model->parameters().front();
  SGD optimizer(model->parameters(), {.lr = 0.5});
  optimizer.update_in_backward();
  const autograd::HookHandle hook =
      w.add_hook([](const Tensor& grad) { return Tensor::zeros(grad.shape()); });
  const std::vector<float> before = w.data().to_vector<float>();
  autograd::backward(loss_of(*model, 0));
  optimizer.step();
  EXPECT_EQ(w.data().to_vector<float>(), before) << "the hook has made its gradient zero";
  EXPECT_THAT(w.grad().to_vector<float>(), testing::Each(0.0F));
}

TEST(UpdateInBackward, FollowsAParameterThatMoves) {
  const auto model = test::make_mlp({kIn, kOut});
  const Variable w = model->parameters().front();
  SGD optimizer(model->parameters(), {.lr = 0.5});
  optimizer.update_in_backward();
  const Tensor left = w.data();
  const std::vector<float> before = left.to_vector<float>();
  w.move_data_to(Tensor::empty(w.shape()));
  autograd::backward(loss_of(*model, 0));
  EXPECT_NE(w.data().to_vector<float>(), before);
  EXPECT_EQ(left.to_vector<float>(), before);
}

/// u vᵀ for two parameters: dx of the product is an update as well.
std::vector<float> factors_after_a_step(bool in_backward) {
  const Variable u(test::data_rows(0, kRows, kIn, 5), /*requires_grad=*/true, "u");
  const Variable v(test::data_rows(0, kOut, kIn, 6), /*requires_grad=*/true, "v");
  SGD optimizer({u, v}, {.lr = 0.5});
  if (in_backward) {
    optimizer.update_in_backward();
  }
  autograd::backward(
      autograd::mse_loss(autograd::linear(u, v, {}), test::data_rows(0, kRows, kOut, 4)));
  EXPECT_EQ(u.grad().defined() || v.grad().defined(), !in_backward);
  optimizer.step();
  return autograd::values_of({u, v});
}

TEST(UpdateInBackward, OfBothFactorsReadsWhatForwardHasRead) {
  EXPECT_THAT(factors_after_a_step(true),
              testing::Pointwise(testing::FloatNear(1e-6F), factors_after_a_step(false)));
}

TEST(UpdateInBackward, RefusesAGraphThatHasReadOlderWeights) {
  const auto model = test::make_mlp({kIn, kOut});
  SGD optimizer(model->parameters(), {.lr = 0.5});
  optimizer.update_in_backward();
  const Variable first = loss_of(*model, 0);
  const Variable second = loss_of(*model, 1);
  autograd::backward(first, {.retain_graph = true});
  for (const Variable& again : {first, second}) {
    optimizer.zero_grad();
    expect_refusal([&] { autograd::backward(again); },
                   "another backward has updated '0.weight' since");
  }
}

TEST(UpdateInBackward, EndsWithItsOptimizer) {
  const auto model = test::make_mlp({kIn, kOut});
  {
    SGD optimizer(model->parameters(), {.lr = 0.5});
    optimizer.update_in_backward();
    autograd::backward(loss_of(*model, 0));
  }
  Adam other(model->parameters(), {});
  expect_refusal([&] { other.step(); }, "has no gradient");
  other.zero_grad();
  const std::vector<float> before = autograd::values_of(model->parameters());
  autograd::backward(loss_of(*model, 0));
  EXPECT_EQ(autograd::values_of(model->parameters()), before);
  EXPECT_NO_THROW(other.step());
}

TEST(UpdateInBackward, LeavesNothingToClipOrToUpdateInFlight) {
  const auto model = test::make_mlp({kIn, kOut});
  SGD optimizer(model->parameters(), {.lr = 0.5});
  optimizer.update_in_backward();
  expect_refusal([&] { clip_grad_norm(optimizer, 1.0); }, "clip_grad_norm: expected gradients");
  expect_refusal([&] { optimizer.begin_step(); }, "backward makes the updates");
}

TEST(UpdateInBackward, RefusesASecondBackward) {
  const auto model = test::make_mlp({kIn, kOut});
  SGD optimizer(model->parameters(), {.lr = 0.5});
  optimizer.update_in_backward();
  autograd::backward(loss_of(*model, 0));
  const Variable second = loss_of(*model, 1);
  EXPECT_ERROR(autograd::backward(second),
               "backward: the gradient of '0.weight' has already been used to update it, in the "
               "backward before this one; with updates in backward call zero_grad() and forward "
               "between two backwards");
  optimizer.zero_grad();
  EXPECT_NO_THROW(autograd::backward(loss_of(*model, 2)));
}

TEST(UpdateInBackward, IsForStepsThatAreLinearInTheGradient) {
  const auto model = test::make_mlp({kIn, kOut});
  SGD momentum(model->parameters(), {.lr = 0.5, .momentum = 0.9});
  EXPECT_ERROR(momentum.update_in_backward(),
               "optimizer: expected SGD without momentum for updates in backward: only its step is "
               "linear in the gradient");
  Adam adam(model->parameters(), {});
  EXPECT_ERROR(adam.update_in_backward(),
               "optimizer: expected SGD without momentum for updates in backward: only its step is "
               "linear in the gradient");
}

}  // namespace
}  // namespace brigade::optim
