// A parameter that a step leaves alone, in the middle of a flat span: torch's grad = None.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/support/expect_error.h"

namespace brigade::optim {
namespace {

using autograd::Variable;
using testing::ElementsAre;
using Row = std::vector<float>;

/// Three parameters of two elements that share one flat span, all weights 1 and all gradients 1.
class SkippedParameter : public testing::Test {
 protected:
  SkippedParameter() {
    for (std::int64_t i = 0; i < 3; ++i) {
      const Variable variable(Tensor::from(Row{1, 1}, {2}), /*requires_grad=*/true,
                              fmt::format("p{}", i));
      variable.move_data_to(data.flat_view(2 * i, {2}));
      variable.move_grad_to(grads.flat_view(2 * i, {2}));
      parameters.push_back(variable);
    }
    give_gradients();
  }

  void give_gradients() const {
    for (const Variable& parameter : parameters) {
      parameter.grad_state()->set_grad(Tensor::from(Row{1, 1}, {2}));
    }
  }

  /// As DataParallel leaves a parameter that no rank has used.
  void leave_unused(std::size_t i) const { parameters[i].grad_state()->mark_unused(); }

  Row weights() const { return data.to_vector<float>(); }

  Tensor data = Tensor::zeros({6});
  Tensor grads = Tensor::zeros({6});
  std::vector<Variable> parameters;
};

TEST_F(SkippedParameter, KeepsItsWeightsDespiteMomentumAndWeightDecay) {
  SGD optimizer(parameters, {.lr = 0.5, .momentum = 0.5, .weight_decay = 0.5});
  optimizer.step();  // v = 1.5, w = 0.25
  give_gradients();
  leave_unused(1);
  optimizer.step();  // the others: g = 1.125, v = 1.875, w = -0.6875
  EXPECT_THAT(weights(), ElementsAre(-0.6875F, -0.6875F, 0.25F, 0.25F, -0.6875F, -0.6875F));
}

TEST_F(SkippedParameter, KeepsItsVelocityForTheNextTime) {
  SGD optimizer(parameters, {.lr = 0.5, .momentum = 0.5});
  optimizer.step();  // v = 1, w = 0.5
  leave_unused(1);
  optimizer.step();  // the others: v = 1.5, w = -0.25
  give_gradients();
  optimizer.step();  // the others: v = 1.75; p1: v = 1.5, w = 0.5 - 0.75
  EXPECT_THAT(weights(), ElementsAre(-1.125F, -1.125F, -0.25F, -0.25F, -1.125F, -1.125F));
}

TEST_F(SkippedParameter, DoesNotCountTheStepInAdam) {
  Adam optimizer(parameters, {.lr = 0.25});
  leave_unused(1);
  optimizer.step();
  EXPECT_THAT(optimizer.parts(), testing::SizeIs(2));
  give_gradients();
  EXPECT_THAT(optimizer.parts(), testing::SizeIs(3)) << "p1 is one update behind";
  optimizer.step();
  // The first update of Adam is lr, whenever it comes; with constant gradients so are the others.
  EXPECT_THAT(weights(), testing::Pointwise(testing::FloatNear(1e-5F),
                                            Row{0.5F, 0.5F, 0.75F, 0.75F, 0.5F, 0.5F}));
}

TEST_F(SkippedParameter, IsAlsoAFrozenOne) {
  SGD optimizer(parameters, {.lr = 0.5});
  parameters[0].set_requires_grad(false);
  optimizer.step();
  EXPECT_THAT(weights(), ElementsAre(1, 1, 0.5F, 0.5F, 0.5F, 0.5F));
}

TEST_F(SkippedParameter, MayNotTrainWhenItWasFrozenBeforeTheOptimizerWasMade) {
  parameters[0].set_requires_grad(false);
  SGD optimizer(parameters, {.lr = 0.5});
  optimizer.step();
  parameters[0].set_requires_grad(true);
  EXPECT_ERROR(optimizer.step(),
               "optimizer: parameter 'p0' was frozen when the optimizer was made and trains now; "
               "freeze it afterwards, or give the optimizer only what it is to train");
}

TEST_F(SkippedParameter, IsAnErrorUnlessTheRanksHaveAgreedOnIt) {
  SGD optimizer(parameters, {.lr = 0.5});
  leave_unused(2);
  parameters[2].zero_grad();
  EXPECT_ERROR(optimizer.step(),
               "optimizer: parameter 'p2' has no gradient: call backward first, on a loss that "
               "depends on it");
}

TEST_F(SkippedParameter, LeavesOneKernelPerSpanWhenThereIsNone) {
  SGD optimizer(parameters, {.lr = 0.5});
  ASSERT_THAT(optimizer.parts(), testing::SizeIs(1));
  EXPECT_EQ(optimizer.parts()[0].data.numel(), 6);
}

TEST(Optimizer, UpdatesAWeightThatIsListedTwiceOnce) {
  const Variable w(Tensor::from(Row{1}, {1}), true, "w");
  SGD optimizer({w, w}, {.lr = 0.5});
  w.grad_state()->set_grad(Tensor::from(Row{1}, {1}));
  optimizer.step();
  EXPECT_THAT(w.data().to_vector<float>(), ElementsAre(0.5F));
}

TEST(Optimizer, UsesLocalGradientsOnlyWhenTold) {
  const Variable w(Tensor::from(Row{1}, {1}), true, "w");
  SGD optimizer({w}, {.lr = 0.5});
  w.grad_state()->set_grad(Tensor::from(Row{1}, {1}));
  w.grad_state()->set_synchronized(false);
  EXPECT_THROW(optimizer.step(), Error);
  optimizer.step(LocalGradients::allow);
  EXPECT_THAT(w.data().to_vector<float>(), ElementsAre(0.5F));
}

TEST(Optimizer, StateNeverSharesMemoryWithGradients) {
  // With momentum 0 < m, a velocity that aliased the gradient would be spoilt by the next one.
  const Variable w(Tensor::from(Row{0}, {1}), true, "w");
  SGD optimizer({w}, {.lr = 1.0, .momentum = 0.5});
  for (const float gradient : {4.0F, 0.0F, 0.0F}) {
    w.grad_state()->set_grad(Tensor::from(Row{gradient}, {1}));
    optimizer.step();
    EXPECT_THAT(w.grad().to_vector<float>(), ElementsAre(gradient)) << "step() only reads it";
  }
  EXPECT_THAT(w.data().to_vector<float>(), ElementsAre(-7));  // 4 + 2 + 1
}

}  // namespace
}  // namespace brigade::optim
