#include "nn/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "autograd/functions/binary.h"
#include "autograd/functions/unary.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/relu.h"
#include "nn/sequential.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace brigade::nn {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// As a user writes it (DESIGN.md, section 10).
struct Residual : Module {
  Linear a{4, 4}, b{4, 4};
  Residual() {
    register_module("a", a);
    register_module("b", b);
  }
  Variable forward(const Variable& x) override { return autograd::add(x, b(autograd::relu(a(x)))); }
};

/// Scales by a parameter of its own in training, and passes its input on in evaluation.
struct Gain : Module {
  Variable gain;
  Gain() { gain = register_parameter("gain", Variable(test::f32({2, 3, 4, 5}, {1, 4}), true)); }
  Variable forward(const Variable& x) override {
    return is_training() ? autograd::add(x, gain) : x;
  }
  using Module::register_module;
  using Module::register_parameter;
};

std::vector<std::string> names(const Module& module) {
  std::vector<std::string> result;
  for (const auto& [name, parameter] : module.named_parameters()) {
    result.push_back(name);
  }
  return result;
}

Variable one_row() {
  return Variable(test::f32({1, -2, 3, -4}, {1, 4}));
}

TEST(ModuleOfOnesOwn, NamesWhatItHasRegistered) {
  EXPECT_THAT(names(Residual()), ElementsAre("a.weight", "a.bias", "b.weight", "b.bias"));
  EXPECT_EQ(Residual().description(), "Module(a: Linear(4, 4), b: Linear(4, 4))");
}

TEST(ModuleOfOnesOwn, KeepsItsRegistrationInASequentialThatCopiesIt) {
  auto original = std::make_unique<Residual>();
  Sequential model(*original, ReLU(), Residual());
  const std::vector<Variable> own = original->parameters();
  const std::vector<float> expected = test::values(autograd::relu((*original)(one_row())).data());
  original.reset();  // the copy must not need the original's members any more

  EXPECT_THAT(names(model), ElementsAre("0.a.weight", "0.a.bias", "0.b.weight", "0.b.bias",
                                        "2.a.weight", "2.a.bias", "2.b.weight", "2.b.bias"));
  const std::vector<Variable> parameters = model.parameters();
  for (std::size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ(parameters[i].identity(), own[i].identity());
    parameters[own.size() + i].data().zero();  // the second Residual passes its input on
  }
  EXPECT_EQ(test::values(model(one_row()).data()), expected);
}

TEST(ModuleOfOnesOwn, TrainsAllParametersOfACopy) {
  const Residual original;
  Residual copy = original;
  Residual moved = std::move(copy);
  nn::mse_loss(moved(one_row()), Tensor::zeros({1, 4})).backward();
  for (const Variable& parameter : original.parameters()) {
    EXPECT_TRUE(parameter.grad().defined()) << parameter.name();
  }
}

TEST(Module, TellsItsModeToCopiesAndToWhatIsBelow) {
  Gain gain;
  Sequential inner(gain);
  Sequential outer(inner, ReLU());
  EXPECT_TRUE(gain.is_training());
  outer.eval();
  EXPECT_FALSE(gain.is_training());
  EXPECT_THAT(test::values(outer(one_row()).data()), ElementsAre(1, 0, 3, 0));
  outer.train();
  EXPECT_THAT(test::values(outer(one_row()).data()), ElementsAre(3, 1, 7, 1));
  inner.eval();
  EXPECT_FALSE(gain.is_training());
  EXPECT_TRUE(outer.is_training());
}

TEST(Module, HasASharedParameterOnceUnderItsFirstName) {
  const Linear layer(4, 4);
  EXPECT_THAT(names(Sequential(layer, ReLU(), layer)), ElementsAre("0.weight", "0.bias"));
}

TEST(Module, AppendedToACopyIsInTheOriginal) {
  Sequential original;
  Sequential copy = original;
  copy.append(Linear(4, 2));
  EXPECT_THAT(names(original), ElementsAre("0.weight", "0.bias"));
  EXPECT_EQ(original(one_row()).shape(), (Shape{1, 2}));
}

TEST(Module, NestsASequentialThatIsAppended) {
  Sequential outer;
  outer.append(Sequential(Linear(4, 4, {.bias = false})));
  EXPECT_THAT(names(outer), ElementsAre("0.0.weight"));
}

TEST(Module, TakesATensorForAVariable) {
  Sequential model{ReLU()};
  EXPECT_THAT(test::values(model(one_row().data()).data()), ElementsAre(1, 0, 3, 0));
}

TEST(Module, WithoutParametersHasNone) {
  EXPECT_THAT(names(Sequential(ReLU())), IsEmpty());
}

TEST(Module, StaysWhereItIsOnItsOwnDevice) {
  const Linear layer(4, 4);
  const float* before = layer.parameters()[0].data().data<float>();
  layer.to(kCpu);
  EXPECT_EQ(layer.parameters()[0].data().data<float>(), before);
}

TEST(Module, RefusesNamesThatAreTakenOrThatAPathCouldNotHold) {
  Gain module;
  EXPECT_ERROR(module.register_module("gain", ReLU()),
               "module: expected a new name, but 'gain' is registered already");
  EXPECT_ERROR(module.register_parameter("a.b", module.gain),
               "module: expected a name without dots, got 'a.b'");
  EXPECT_ERROR(module.register_module("", ReLU()), "module: expected a name without dots, got ''");
}

TEST(Module, KeepsTheNamesFromTheOutermostModule) {
  const Residual model;
  const std::vector<Variable> all = model.parameters();
  EXPECT_EQ(all[2].name(), "b.weight");
  static_cast<void>(model.b.parameters());  // as nn::save(model.b, ...) or a count of elements does
  EXPECT_EQ(all[2].name(), "b.weight") << "a checkpoint would not find it again";
}

TEST(Module, TrainsWhateverIsRegisteredAsAParameter) {
  Gain module;
  const Variable added =
      module.register_parameter("added", Variable(test::f32({1, 2}, {2}), /*requires_grad=*/false));
  EXPECT_TRUE(added.requires_grad());
}

TEST(Module, RefusesToContainItself) {
  Gain inner;
  Gain outer;
  outer.register_module("inner", inner);
  EXPECT_ERROR(inner.register_module("self", inner),
               "module: 'self' is or contains the module it is registered with");
  EXPECT_ERROR(inner.register_module("outer", outer),
               "module: 'outer' is or contains the module it is registered with");
}

TEST(Module, RefusesAParameterThatIsNoLeaf) {
  Gain module;
  EXPECT_ERROR(module.register_parameter("twice", autograd::add(module.gain, module.gain)),
               "module: expected 'twice' to be a leaf, got a computed variable");
  EXPECT_ERROR(module.register_parameter("none", Variable()),
               "module: expected 'none' to be a leaf, got an undefined variable");
}

}  // namespace
}  // namespace brigade::nn
