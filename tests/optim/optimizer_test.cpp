#include "optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/functions/binary.h"
#include "autograd/variable.h"
#include "core/error.h"
#include "core/ops.h"
#include "core/runtime/context.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/support/expect_error.h"
#include "tests/support/resident.h"

namespace brigade::optim {
namespace {

using autograd::Variable;
using Row = std::vector<float>;

Variable parameter(const Row& values, std::string name = "w") {
  return Variable(Tensor::from(values, {static_cast<std::int64_t>(values.size())}),
                  /*requires_grad=*/true, std::move(name));
}

void set_gradient(const Variable& variable, const Row& values) {
  variable.grad_state()->set_grad(Tensor::from(values, variable.shape()));
}

/// Three steps from (1, -2, 3) with the gradients (0.5, -1, 2), (-0.25, 0.75, 1), (1, 1, -3) must
/// pass through `rows`, which are PyTorch's numbers.
template <class OptimizerT>
void expect_path(typename OptimizerT::Options options, const std::vector<Row>& rows) {
  const Variable w = parameter({1, -2, 3});
  OptimizerT optimizer({w}, options);
  const std::vector<Row> gradients{{0.5F, -1, 2}, {-0.25F, 0.75F, 1}, {1, 1, -3}};
  for (std::size_t step = 0; step < rows.size(); ++step) {
    set_gradient(w, gradients[step]);
    optimizer.step();
    EXPECT_THAT(w.data().to_vector<float>(),
                testing::Pointwise(testing::FloatNear(2e-6F), rows[step]))
        << "step " << step + 1;
  }
}

TEST(Sgd, WithoutMomentumFollowsPyTorch) {
  expect_path<SGD>({.lr = 0.1},
                   {{0.95F, -1.9F, 2.8F}, {0.975F, -1.975F, 2.7F}, {0.875F, -2.075F, 3.0F}});
}

template <class OptimizerT>
std::vector<float> after_one_step() {
  const Variable w = parameter({1, -2, 3});
  set_gradient(w, {1, 1, 1});
  OptimizerT({w}).step();
  return w.data().to_vector<float>();
}

TEST(Sgd, HasPyTorchsDefaults) {
  EXPECT_THAT(after_one_step<SGD>(), testing::ElementsAre(0.99F, -2.01F, 2.99F));
}

TEST(Adam, HasPyTorchsDefaults) {
  EXPECT_THAT(after_one_step<Adam>(),
              testing::Pointwise(testing::FloatNear(1e-6F), Row{0.999F, -2.001F, 2.999F}));
}

/// Subtracts the gradient, unless told to fail.
class Stubborn final : public Optimizer {
 public:
  explicit Stubborn(const std::vector<Variable>& parameters) : Optimizer(parameters, {}, {}) {}
  bool fails = false;

 protected:
  void update(const ParamRange& part) override {
    BRIGADE_CHECK(!fails, "will not");
    Tensor weights = part.data;
    ops::axpby(part.grad, {.alpha = -1.0, .beta = 1.0}, weights);
  }
};

TEST(Optimizer, AStepThatFailedLeavesNothingForTheNext) {
  const Variable w = parameter({1, 2});
  Stubborn optimizer({w});
  set_gradient(w, {1, 1});
  optimizer.fails = true;
  EXPECT_THROW(optimizer.step(), Error);
  optimizer.fails = false;
  optimizer.step();
  EXPECT_EQ(w.data().to_vector<float>(), (Row{0, 1})) << "once";
}

TEST(Optimizer, TrainsOnAfterTheMemoryOfGradientsWasGivenBack) {
  constexpr std::size_t kLength = 1 << 20;
  const Variable w = parameter(Row(kLength, 3));
  Stubborn optimizer({w});
  for (int step = 1; step <= 2; ++step) {
    set_gradient(w, Row(kLength, 1));
    optimizer.step();
    EXPECT_THAT(w.data().to_vector<float>(), testing::Each(3.0F - static_cast<float>(step)));
    const std::int64_t resident = test::resident_bytes();
    optimizer.zero_grad(GradMemory::discard);
    EXPECT_LT(test::resident_bytes(), resident - (3 << 20)) << "of 4 MiB";
    EXPECT_FALSE(w.grad().defined());
  }
}

TEST(Sgd, WithMomentumFollowsPyTorch) {
  expect_path<SGD>({.lr = 0.1, .momentum = 0.9},
                   {{0.95F, -1.9F, 2.8F}, {0.93F, -1.885F, 2.52F}, {0.812F, -1.9715F, 2.568F}});
}

TEST(Sgd, WithMomentumAndWeightDecayFollowsPyTorch) {
  expect_path<SGD>(
      {.lr = 0.1, .momentum = 0.5, .weight_decay = 0.2},
      {{0.93F, -1.86F, 2.74F}, {0.9014F, -1.8278F, 2.4552F}, {0.769072F, -1.875144F, 2.563696F}});
}

TEST(Sgd, WithNesterovFollowsPyTorch) {
  expect_path<SGD>({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.05, .nesterov = true},
                   {{0.8955F, -1.791F, 2.5915F},
                    {0.88994275F, -1.8273855F, 2.20273075F},
                    {0.668016519F, -1.973331788F, 2.503574233F}});
}

TEST(Sgd, RefusesOptionsThatMakeNoSense) {
  EXPECT_ERROR(SGD({parameter({1})}, {.lr = 0.1, .nesterov = true}),
               "sgd: Nesterov needs momentum > 0");
  EXPECT_ERROR(SGD({parameter({1})}, {.lr = -0.1}), "optimizer: expected lr >= 0, got -0.1");
}

TEST(Adam, FollowsPyTorch) {
  expect_path<Adam>({.lr = 0.1}, {{0.900000002F, -1.900000001F, 2.9F},
                                  {0.873366299F, -1.8910675F, 2.806782037F},
                                  {0.80755514F, -1.925603775F, 2.814979717F}});
}

TEST(Adam, WithWeightDecayAndOtherConstantsFollowsPyTorch) {
  expect_path<Adam>({.lr = 0.05, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-2, .weight_decay = 0.1},
                    {{0.950819672F, -1.950413223F, 2.95021645F},
                     {0.930446584F, -1.938406614F, 2.903496959F},
                     {0.893245553F, -1.949426009F, 2.905373098F}});
}

TEST(Adam, WithDecoupledDecayFollowsPyTorchsAdamW) {
  expect_path<Adam>({.lr = 0.1, .weight_decay = 0.05, .decoupled = true},
                    {{0.895000002F, -1.890000001F, 2.885F},
                     {0.863891299F, -1.8716175F, 2.777357037F},
                     {0.793760683F, -1.896795688F, 2.771667932F}});
}

TEST(Adam, RefusesABetaOfOne) {
  EXPECT_ERROR(Adam({parameter({1})}, {.beta2 = 1.0}),
               "adam: expected betas in [0, 1), got 0.9 and 1");
}

TEST(Optimizer, NamesTheParameterThatHasNoGradient) {
  const Variable used = parameter({1}, "0.weight");
  const Variable unused = parameter({1}, "2.weight");
  SGD optimizer({used, unused}, {.lr = 0.1});
  autograd::mul(used, 2).backward();
  EXPECT_ERROR(
      optimizer.step(),
      "optimizer: parameter '2.weight' has no gradient: call backward first, on a loss that "
      "depends on it");
  EXPECT_EQ(used.data().to_vector<float>()[0], 1.0F) << "a refused step must change nothing";
}

TEST(Optimizer, RefusesWhatIsNoLeaf) {
  EXPECT_ERROR(SGD({autograd::mul(parameter({1}), 2)}),
               "optimizer: '' is not a leaf but was computed; pass the parameters it comes from");
}

TEST(Optimizer, HasNoStateForTwoParametersOfOneName) {
  Adam both({parameter({1}, "0.weight"), parameter({2}, "0.weight")});
  EXPECT_ERROR(both.state(),
               "optimizer: two parameters are named '0.weight', so a state cannot tell them apart; "
               "register the models in one module and take its parameters()");
}

TEST(Optimizer, RefusesAGradientThatWasNeverSynchronised) {
  const Variable w = parameter({1}, "0.weight");
  SGD optimizer({w}, {.lr = 0.1});
  autograd::mul(w, 2).backward();
  w.grad_state()->set_synchronized(false);
  EXPECT_ERROR(optimizer.step(),
               "optimizer: the gradient of '0.weight' was never synchronised over the ranks: every "
               "backward since zero_grad ran inside no_sync()");
}

TEST(Optimizer, NeedsAFreshGradientAfterZeroGrad) {
  const Variable w = parameter({1});
  SGD optimizer({w}, {.lr = 0.5});
  autograd::mul(w, 2).backward();
  optimizer.step();
  optimizer.zero_grad();
  EXPECT_THROW(optimizer.step(), Error);
  autograd::mul(w, 1).backward();
  optimizer.step();
  EXPECT_EQ(w.data().to_vector<float>()[0], -0.5F);
}

TEST(Optimizer, AllocatesNothingAfterTheFirstStep) {
  const Variable w = parameter(Row(1000, 1.0F));
  Adam optimizer({w}, {});
  set_gradient(w, Row(1000, 1.0F));
  optimizer.step();
  const auto before = Context::current().allocator(kCpu)->stats();
  optimizer.step();
  const auto after = Context::current().allocator(kCpu)->stats();
  EXPECT_EQ(after.system_allocations, before.system_allocations);
  EXPECT_EQ(after.peak_in_use, before.peak_in_use);
}

}  // namespace
}  // namespace brigade::optim
