// A layer's output lies in the memory of its weight's gradient until backward writes that.
#include <gmock/gmock.h>

#include <utility>

#include "autograd/engine.h"
#include "autograd/functions/binary.h"
#include "autograd/functions/linear.h"
#include "autograd/functions/mse_loss.h"
#include "autograd/replay.h"
#include "core/ops.h"
#include "core/runtime/context.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace brigade::autograd {
namespace {

using test::numbers;
using test::values;

constexpr std::int64_t kRows = 6;
constexpr std::int64_t kWidth = 8;

const std::byte* memory_of_gradient(const Variable& w) {
  return w.grad_state()->grad.bytes();
}

/// A weight [8, 8] whose gradient has memory that is empty.
Variable weight(std::uint32_t sequence) {
  const Variable w(numbers({kWidth, kWidth}, sequence), true, "w");
  w.move_grad_to(test::poisoned({kWidth, kWidth}));
  return w;
}

/// Two layers with a ReLU between them.
class LentGradient : public ::testing::Test {
 protected:
  Variable hidden() const { return linear_relu(x_, first_, Variable()); }
  Variable loss_of(const Variable& hidden) const {
    return mse_loss(linear(hidden, second_, Variable()), target_);
  }
  std::vector<float> gradients() const {
    std::vector<float> both = values(first_.grad());
    const std::vector<float> second = values(second_.grad());
    both.insert(both.end(), second.begin(), second.end());
    return both;
  }
  void zero_grad() const {
    first_.zero_grad();
    second_.zero_grad();
  }

  /// What gradients() are when both layers' outputs have memory of their own, as they have where
  /// the gradients have none yet.
  std::vector<float> expected() const {
    const Variable first(first_.data(), true);
    const Variable second(second_.data(), true);
    backward(mse_loss(linear(linear_relu(x_, first, Variable()), second, Variable()), target_));
    std::vector<float> both = values(first.grad());
    const std::vector<float> other = values(second.grad());
    both.insert(both.end(), other.begin(), other.end());
    return both;
  }

  Variable x_{numbers({kRows, kWidth}, 1)};
  Variable first_ = weight(2);
  Variable second_ = weight(3);
  Tensor target_ = numbers({kRows, kWidth}, 4);
};

TEST_F(LentGradient, IsWhereTheOutputLies) {
  const Variable y = hidden();
  EXPECT_EQ(y.data().bytes(), memory_of_gradient(first_));
  EXPECT_EQ(linear(y, second_, Variable()).data().bytes(), memory_of_gradient(second_));
}

TEST_F(LentGradient, HasTheSameValueInTheEnd) {
  backward(loss_of(hidden()));
  EXPECT_EQ(gradients(), expected());
  zero_grad();
  backward(loss_of(hidden()));
  EXPECT_EQ(gradients(), expected());
}

/// Three layers, wide enough for the memory they take to be seen; nobody holds their outputs.
class LentGradientMemory : public ::testing::Test {
 protected:
  static constexpr std::int64_t kBatch = 32;
  static constexpr std::int64_t kFeatures = 64;
  static constexpr std::size_t kActivation = kBatch * kFeatures * sizeof(float);

  LentGradientMemory() {
    for (std::uint32_t i = 0; i < 3; ++i) {
      weights_.emplace_back(numbers({kFeatures, kFeatures}, i), true);
      weights_.back().move_grad_to(test::poisoned({kFeatures, kFeatures}));
    }
  }

  /// Most bytes that are in use at one time in forward and backward, beyond those before.
  std::size_t peak_of_a_step() const {
    CachingAllocator& allocator = *Context::current().allocator(kCpu);
    const std::size_t before = allocator.stats().in_use;
    allocator.reset_peak();
    const Variable loss = loss_of_a_step();
    backward(loss);
    return allocator.stats().peak_in_use - before;
  }

  std::vector<Variable> weights_;

 private:
  Variable loss_of_a_step() const {
    Variable y = x_;
    for (const Variable& w : weights_) {
      y = linear_relu(y, w, Variable());
    }
    return mse_loss(y, target_);
  }

  Variable x_{numbers({kBatch, kFeatures}, 4)};
  Tensor target_ = numbers({kBatch, kFeatures}, 5);
};

TEST_F(LentGradientMemory, IsAllThatOutputsTake) {
  // dy, which is masked in place, and dx; no output and no copy of one.
  EXPECT_LT(peak_of_a_step(), 2 * kActivation + kActivation / 2);
}

TEST_F(LentGradientMemory, IsOtherMemoryWhereAGradientIsAccumulated) {
  peak_of_a_step();
  EXPECT_GT(peak_of_a_step(), 3 * kActivation);
}

TEST_F(LentGradient, LeavesAloneWhatSomebodyStillHolds) {
  const Variable y = hidden();
  const Variable prediction = linear(y, second_, Variable());
  const std::vector<float> y_before = values(y.data());
  const std::vector<float> prediction_before = values(prediction.data());
  backward(mse_loss(prediction, target_));
  EXPECT_EQ(values(y.data()), y_before);
  EXPECT_EQ(values(prediction.data()), prediction_before);
  EXPECT_EQ(gradients(), expected());
}

TEST(Linear, MasksDyInPlaceUnlessAHookKeepsIt) {
  const Variable x(numbers({kRows, kWidth}, 1));
  const Variable w(numbers({kWidth, kWidth}, 2), true);
  const Variable y = linear_relu(x, w, Variable());
  Tensor kept;
  const HookHandle hook = y.add_hook([&](const Tensor& dy) {
    kept = dy;
    return Tensor();
  });
  const Variable target(Tensor::zeros({kRows, kWidth}));
  backward(mse_loss(add(y, Variable(numbers({kRows, kWidth}, 3))), target.data()));
  // d loss/dy = 2 (y + numbers) / n, also where y is 0 and dz with it.
  const std::vector<float> sum = values(y.data());
  const std::vector<float> more = values(numbers({kRows, kWidth}, 3));
  for (std::size_t i = 0; i < sum.size(); ++i) {
    ASSERT_FLOAT_EQ(values(kept)[i], 2 * (sum[i] + more[i]) / (kRows * kWidth));
  }
}

TEST_F(LentGradient, OfANodeThatFailedHasFreedItsGraph) {
  const Variable y = hidden();
  const Variable first_loss = mse_loss(y, target_);
  const Variable second_loss = loss_of(y);
  {
    const HookHandle fails = first_.add_hook([](const Tensor&) -> Tensor { throw Error("no"); });
    EXPECT_ERROR(backward(first_loss), "no");
  }
  EXPECT_ERROR(backward(second_loss),
               "backward: the graph behind linear_relu was freed by an earlier backward; pass "
               "retain_graph to the earlier one");
}

TEST_F(LentGradient, CanBeComputedTwiceFromAGraphThatIsKept) {
  const Variable loss = loss_of(hidden());
  backward(loss, {.retain_graph = true});
  zero_grad();
  backward(loss);
  EXPECT_EQ(gradients(), expected());
}

TEST_F(LentGradient, IsLentToOneForwardAtATime) {
  const Variable first_loss = loss_of(hidden());
  const Variable y = hidden();
  EXPECT_NE(y.data().bytes(), memory_of_gradient(first_));
  backward(loss_of(y));  // writes where the first forward's outputs lie, which are still needed
  zero_grad();
  backward(first_loss);
  EXPECT_EQ(gradients(), expected());
}

TEST_F(LentGradient, ServesTwoLayersThatShareAWeight) {
  const auto loss = [&](const Variable& w) {
    return mse_loss(linear_relu(linear_relu(x_, w, Variable()), w, Variable()), target_);
  };
  backward(loss(first_));
  const Variable with_own_memory(first_.data(), true);
  backward(loss(with_own_memory));
  EXPECT_EQ(values(first_.grad()), values(with_own_memory.grad()));
}

TEST_F(LentGradient, IsNotLentWhileItHasAValue) {
  backward(loss_of(hidden()));
  const std::vector<float> once = gradients();
  const Variable loss = loss_of(hidden());
  EXPECT_EQ(gradients(), once);
  backward(loss);
  for (std::size_t i = 0; i < once.size(); ++i) {
    ASSERT_EQ(gradients()[i], 2 * once[i]);
  }
}

TEST_F(LentGradient, IsNotLentWhereNoBackwardFollows) {
  const NoGradGuard evaluation;
  EXPECT_NE(hidden().data().bytes(), memory_of_gradient(first_));
}

TEST_F(LentGradient, IsNotLentToWhatHasNoRoomInIt) {
  const Variable x(numbers({kWidth + 1, kWidth}, 1));
  EXPECT_NE(linear(x, first_, Variable()).data().bytes(), memory_of_gradient(first_));
}

TEST_F(LentGradient, IsNotLentWhereBackwardUpdatesTheWeight) {
  // There nothing is ever written to it, and on a CPU untouched memory is none.
  first_.update_in_backward({.alpha = -0.1, .beta = 1.0});
  EXPECT_NE(hidden().data().bytes(), memory_of_gradient(first_));
}

TEST_F(LentGradient, CanMoveWhileAnOutputLiesInIt) {
  const Variable y = hidden();
  const std::vector<float> before = values(y.data());
  first_.move_grad_to(test::poisoned({kWidth, kWidth}));
  EXPECT_EQ(values(y.data()), before);
  EXPECT_EQ(hidden().data().bytes(), memory_of_gradient(first_)) << "the new memory is free";
  backward(loss_of(y));
  EXPECT_EQ(values(y.data()), before);
  EXPECT_EQ(gradients(), expected());
}

TEST_F(LentGradient, WithAHookIsFreeWhenTheHookHasSeenIt) {
  const HookHandle hook = first_.add_hook([](const Tensor&) { return Tensor(); });
  const Variable y = hidden();
  const std::vector<float> before = values(y.data());
  backward(loss_of(y));
  EXPECT_EQ(values(y.data()), before);
  EXPECT_EQ(gradients(), expected());
}

TEST_F(LentGradient, OfAReplayIsFreedFromEarlierOutputs) {
  Replay replay({first_, second_}, kCpu);
  const auto step = [&] {
    zero_grad();
    replay.step({.inputs = x_.data().bytes(), .targets = target_.bytes(), .samples = kRows},
                {.forward = [&] { return loss_of(hidden()); }, .update = nullptr});
  };
  step();
  step();
  zero_grad();
  const Variable y = hidden();
  const std::vector<float> before = values(y.data());
  step();
  EXPECT_EQ(replay.replays(), 1U);
  EXPECT_EQ(values(y.data()), before);
  EXPECT_EQ(gradients(), expected());
}

}  // namespace
}  // namespace brigade::autograd
