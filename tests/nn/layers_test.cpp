#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <thread>

#include "autograd/functions/linear.h"
#include "autograd/functions/unary.h"
#include "autograd/variable.h"
#include "core/random.h"
#include "nn/gelu.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/relu.h"
#include "nn/sequential.h"
#include "tests/support/expect_error.h"

namespace brigade::nn {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::Le;

std::vector<float> values(const Variable& parameter) {
  return parameter.data().to_vector<float>();
}

template <class Activation = ReLU>
Sequential small_mlp(bool bias) {
  manual_seed(1);
  return Sequential(Linear(4, 3, {.bias = bias}), Activation(), Linear(3, 2, {.bias = bias}));
}

std::vector<std::string> names(const Module& module) {
  std::vector<std::string> result;
  for (const Variable& parameter : module.parameters()) {
    result.push_back(parameter.name());
  }
  return result;
}

TEST(LinearLayer, StartsUniformWithinOneOverTheRootOfItsInputs) {
  manual_seed(3);
  const Linear layer(400, 50);
  for (const Variable& parameter : layer.parameters()) {
    EXPECT_THAT(values(parameter), Each(AllOf(Ge(-0.05F), Le(0.05F))));
  }
  double squares = 0.0;
  for (const float value : values(layer.parameters()[0])) {
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_NEAR(std::sqrt(squares / 20'000.0), 0.05 / std::sqrt(3.0), 1e-3);
}

TEST(LinearLayer, DrawsItsParametersFromTheStreamsThatFollowTheSeed) {
  const auto expected = [](std::uint32_t sequence, std::uint64_t i) {
    return unit_float(random_bits({.seed = 11, .sequence = sequences::kParameters + sequence}, i)) -
           0.5F;
  };
  manual_seed(11);
  const std::vector<Linear> layers{Linear(4, 3), Linear(4, 3)};
  std::uint32_t sequence = 0;
  for (const Linear& layer : layers) {
    for (const Variable& parameter : layer.parameters()) {
      const std::vector<float> got = values(parameter);
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_FLOAT_EQ(got[i], expected(sequence, i)) << parameter.name() << " of " << sequence;
      }
      ++sequence;
    }
  }
  EXPECT_EQ(sequence, 4U);
}

TEST(LinearLayer, DiffersFromAnotherOfItsShape) {
  manual_seed(1);
  const Linear first(64, 64);
  const Linear second(64, 64);
  EXPECT_NE(values(first.parameters()[0]), values(second.parameters()[0]));
  EXPECT_NE(values(first.parameters()[1]), values(second.parameters()[1]));
}

TEST(LinearLayer, IsTheSameForTheSameSeedAndDifferentForAnother) {
  const auto weights = [](std::uint64_t seed) {
    manual_seed(seed);
    return values(Linear(8, 8).parameters()[0]);
  };
  EXPECT_EQ(weights(5), weights(5));
  EXPECT_NE(weights(5), weights(6));
}

TEST(LinearLayer, IsTheSameOnThreadsThatConstructAtTheSameTime) {
  std::array<std::vector<float>, 2> weights;
  std::vector<std::thread> ranks;
  for (std::vector<float>& mine : weights) {
    ranks.emplace_back([&mine] {
      manual_seed(4);
      for (int layer = 0; layer < 50; ++layer) {
        const auto parameters = Linear(5, 5).parameters();
        const std::vector<float> weight = values(parameters[0]);
        mine.insert(mine.end(), weight.begin(), weight.end());
      }
    });
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }
  EXPECT_EQ(weights[0], weights[1]);
}

TEST(LinearLayer, WithoutBiasLeavesTheNextLayerItsWeights) {
  manual_seed(2);
  const Linear with(3, 3);
  const Linear after_with(3, 3);
  manual_seed(2);
  const Linear without(3, 3, {.bias = false});
  const Linear after_without(3, 3);
  EXPECT_EQ(values(after_with.parameters()[0]), values(after_without.parameters()[0]));
}

TEST(LinearLayer, StoresItsWeightAsOutTimesIn) {
  const Linear layer(4, 3);
  EXPECT_EQ(layer.parameters()[0].shape(), (Shape{3, 4}));
  EXPECT_EQ(layer.parameters()[1].shape(), (Shape{3}));
  EXPECT_TRUE(layer.parameters()[0].requires_grad());
}

TEST(LinearLayer, HasNoBiasWhenToldSo) {
  const Linear layer(4, 3, {.bias = false});
  EXPECT_THAT(names(layer), ElementsAre("weight"));
  EXPECT_EQ(layer.description(), "Linear(4, 3, no bias)");
}

TEST(LinearLayer, RefusesToHaveNoFeatures) {
  EXPECT_ERROR(Linear(0, 3), "Linear: expected positive features, got 0 in, 3 out");
}

TEST(LinearLayer, ComputesWhatItsParametersSay) {
  Linear layer(2, 2);
  layer.parameters()[0].data().copy_from(Tensor::from(std::vector<float>{1, 2, 3, 4}, {2, 2}));
  layer.parameters()[1].data().copy_from(Tensor::from(std::vector<float>{10, 20}, {2}));
  const Variable y = layer.forward(Variable(Tensor::from(std::vector<float>{1, -1}, {1, 2})));
  EXPECT_THAT(values(y), ElementsAre(9, 19));
}

TEST(SequentialModule, NamesItsParametersAsPyTorchDoes) {
  EXPECT_THAT(names(small_mlp(true)), ElementsAre("0.weight", "0.bias", "2.weight", "2.bias"));
  EXPECT_THAT(names(small_mlp(false)), ElementsAre("0.weight", "2.weight"));
}

TEST(SequentialModule, PutsTheNamesOfInnerModulesBehindItsOwn) {
  const Sequential outer(ReLU(), small_mlp(false));
  EXPECT_THAT(names(outer), ElementsAre("1.0.weight", "1.2.weight"));
}

TEST(SequentialModule, AppliesItsModulesInOrder) {
  Sequential model = small_mlp(true);
  for (const Variable& parameter : model.parameters()) {
    parameter.data().zero();
  }
  // 0.bias = (-1, 1, 2), of which ReLU leaves (0, 1, 2); 2.weight = ones.
  model.parameters()[1].data().copy_from(Tensor::from(std::vector<float>{-1, 1, 2}, {3}));
  model.parameters()[2].data().copy_from(Tensor::from(std::vector<float>(6, 1.0F), {2, 3}));
  const Variable y = model.forward(Variable(Tensor::zeros({1, 4})));
  EXPECT_THAT(values(y), ElementsAre(3, 3));
}

template <class Activation>
void expect_the_bits_of_the_layers(Variable activation(const Variable&)) {
  for (const bool bias : {true, false}) {
    Sequential model = small_mlp<Activation>(bias);
    const Variable x(Tensor::from(std::vector<float>{1, -2, 3, -4, 0.5F, 0.25F, -1, 2}, {2, 4}));
    const auto gradients_of = [&](const Variable& y) {
      std::vector<std::vector<float>> result = {values(y)};
      for (const Variable& parameter : model.parameters()) {
        parameter.zero_grad();
      }
      nn::mse_loss(y, Tensor::zeros({2, 2})).backward();
      for (const Variable& parameter : model.parameters()) {
        result.push_back(parameter.grad().to_vector<float>());
      }
      return result;
    };
    const auto parameters = model.parameters();
    const std::size_t stride = bias ? 2 : 1;
    const Variable b0 = bias ? parameters[1] : Variable();
    const Variable b1 = bias ? parameters[3] : Variable();
    const Variable hidden = activation(autograd::linear(x, parameters[0], b0));
    const auto plain = gradients_of(autograd::linear(hidden, parameters[stride], b1));
    EXPECT_EQ(gradients_of(model.forward(x)), plain);
  }
}

TEST(SequentialModule, GivesTheBitsOfItsLayersOneByOne) {
  expect_the_bits_of_the_layers<ReLU>(autograd::relu);
  expect_the_bits_of_the_layers<GELU>(autograd::gelu);
}

TEST(SequentialModule, HandsOutParametersThatShareTheirGradient) {
  Sequential model = small_mlp(true);
  const Variable x(Tensor::zeros({1, 4}));
  nn::mse_loss(model.forward(x), Tensor::zeros({1, 2})).backward();
  for (const Variable& parameter : model.parameters()) {
    EXPECT_TRUE(parameter.grad().defined()) << parameter.name();
  }
}

TEST(SequentialModule, DescribesItself) {
  EXPECT_EQ(small_mlp(true).description(), "Linear(4, 3) > ReLU() > Linear(3, 2)");
}

}  // namespace
}  // namespace brigade::nn
