#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/functions/binary.h"
#include "autograd/node.h"
#include "autograd/variable.h"
#include "tests/autograd/probe.h"
#include "tests/support/expect_error.h"

namespace brigade::autograd {
namespace {

TEST(Freeze, AFrozenLeafIsAConstantForFunctionsCalledAfterwards) {
  const Variable w = scalar_leaf(2, "w");
  const Variable x = scalar_leaf(3, "x");
  w.set_requires_grad(false);
  const Variable y = add(w, x);
  EXPECT_EQ(y.grad_state()->producer()->inputs[0], nullptr);
  y.backward();
  EXPECT_FALSE(w.grad().defined());
  EXPECT_EQ(grad_of(x), 1.0);
  EXPECT_FALSE(mul(w, 2).requires_grad());
}

TEST(Freeze, AThawedLeafTrainsAgainAndStillTellsItsListeners) {
  EventLog log;
  LoggingListener listener(log);
  const Variable w = scalar_leaf(2, "w");
  const ListenerHandle handle = w.attach_listener(listener, 7);
  w.set_requires_grad(false);
  w.set_requires_grad(true);
  mul(w, 5).backward();
  EXPECT_EQ(grad_of(w), 5.0);
  EXPECT_THAT(log, testing::ElementsAre("begin", "ready 7", "end"));
}

TEST(Freeze, ATensorThatNeverTrainedCanBeMadeToTrain) {
  const Variable w(Tensor::from(std::vector<float>{2}, {}), /*requires_grad=*/false, "w");
  w.set_requires_grad(true);
  mul(w, 5).backward();
  EXPECT_EQ(grad_of(w), 5.0);
  EXPECT_EQ(w.grad_state()->name(), "w");
}

TEST(Freeze, RefusesWhatIsNoLeaf) {
  Variable y = mul(scalar_leaf(2), 3);
  y.set_name("hidden");
  EXPECT_ERROR(
      y.set_requires_grad(false),
      "variable 'hidden': only a leaf can be frozen; freeze the parameters it was computed "
      "from");
}

TEST(Freeze, TrainableLeavesOutTheFrozenAndTheSecondNameOfASharedWeight) {
  const Variable shared = scalar_leaf(1, "shared");
  const Variable frozen = scalar_leaf(2, "frozen");
  const Variable last = scalar_leaf(3, "last");
  frozen.set_requires_grad(false);
  std::vector<std::string> names;
  for (const Variable& one : trainable({shared, frozen, shared, last})) {
    names.push_back(one.name());
  }
  EXPECT_THAT(names, testing::ElementsAre("shared", "last"));
}

}  // namespace
}  // namespace brigade::autograd
