#include "autograd/hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/functions/binary.h"
#include "core/ops.h"
#include "tests/autograd/probe.h"
#include "tests/support/expect_error.h"

namespace brigade::autograd {
namespace {

using testing::ElementsAre;

/// Notes what it sees.
TensorHook note(std::vector<double>& seen) {
  return [&seen](const Tensor& grad) {
    seen.push_back(grad.item());
    return Tensor();
  };
}

/// Replaces the gradient by `factor` times itself.
TensorHook multiply(double factor) {
  return [factor](const Tensor& grad) {
    Tensor result = Tensor::empty_like(grad);
    ops::axpby(grad, {.alpha = factor, .beta = 0.0}, result);
    return result;
  };
}

TEST(TensorHook, SeesTheGradientOfThisBackwardAlone) {
  const Variable w = scalar_leaf(1);
  std::vector<double> seen;
  const HookHandle handle = w.add_hook(note(seen));
  backward(mul(w, 3));
  backward(mul(w, 4));
  EXPECT_THAT(seen, ElementsAre(3, 4));
  EXPECT_EQ(grad_of(w), 7.0);
}

TEST(TensorHook, OfALeafSeesTheSumOfAllContributionsOnce) {
  const Variable w = scalar_leaf(1);
  std::vector<double> seen;
  const HookHandle handle = w.add_hook(note(seen));
  backward(add(w, mul(w, 3)));
  EXPECT_THAT(seen, ElementsAre(4));
}

TEST(TensorHook, OfALeafSeesTheGradientBeforeItIsScaledForTheRanks) {
  const Variable w = scalar_leaf(1);
  w.grad_state()->set_grad_scale(0.5);
  std::vector<double> seen;
  const HookHandle handle = w.add_hook(note(seen));
  backward(mul(w, 3));
  EXPECT_THAT(seen, ElementsAre(3));
  EXPECT_EQ(grad_of(w), 1.5);
}

TEST(TensorHook, ReplacesTheGradientOfALeaf) {
  const Variable w = scalar_leaf(1);
  backward(mul(w, 1));
  const HookHandle handle = w.add_hook(multiply(10));
  backward(mul(w, 3));
  EXPECT_EQ(grad_of(w), 31.0);  // what was there before stays as it was
}

TEST(TensorHook, ReplacesAnIntermediateGradientForAllThatFollows) {
  const Variable w = scalar_leaf(1);
  const Variable h = mul(w, 3);
  const HookHandle handle = h.add_hook(multiply(10));
  backward(mul(h, 2));
  EXPECT_EQ(grad_of(w), 60.0);
}

TEST(TensorHook, SeesWhatTheHookBeforeItReturned) {
  const Variable w = scalar_leaf(1);
  std::vector<double> seen;
  const HookHandle first = w.add_hook(multiply(10));
  const HookHandle second = w.add_hook(note(seen));
  const HookHandle third = w.add_hook(multiply(2));
  backward(mul(w, 3));
  EXPECT_THAT(seen, ElementsAre(30));
  EXPECT_EQ(grad_of(w), 60.0);
}

TEST(TensorHook, RunsBeforeTheListenersAreTold) {
  EventLog log;
  LoggingListener listener(log);
  const Variable w = scalar_leaf(1);
  const HookHandle listening = w.attach_listener(listener, 0);
  const HookHandle handle = w.add_hook([&](const Tensor&) {
    log.emplace_back("hook");
    return Tensor();
  });
  backward(mul(w, 3));
  EXPECT_THAT(log, ElementsAre("begin", "hook", "ready 0", "end"));
}

TEST(TensorHook, EndsWithItsHandle) {
  const Variable w = scalar_leaf(1);
  std::vector<double> seen;
  { const HookHandle handle = w.add_hook(note(seen)); }
  HookHandle moved;
  {
    HookHandle handle = w.add_hook(note(seen));
    moved = std::move(handle);
  }
  backward(mul(w, 3));
  EXPECT_THAT(seen, ElementsAre(3));  // the moved one alone
  moved.detach();
  backward(mul(w, 3));
  EXPECT_THAT(seen, ElementsAre(3));
}

TEST(TensorHook, MayDetachItself) {
  const Variable w = scalar_leaf(1);
  int calls = 0;
  HookHandle handle;
  handle = w.add_hook([&](const Tensor&) {
    ++calls;
    handle.detach();
    return Tensor();
  });
  backward(mul(w, 3));
  backward(mul(w, 3));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(grad_of(w), 6.0);
}

TEST(TensorHook, SeesNothingOfABackwardThatFailedHalfWay) {
  const Variable w = scalar_leaf(1);
  std::vector<double> seen;
  const HookHandle handle = w.add_hook(note(seen));
  {
    const Variable first = mul(w, 3);  // nodes run from the newest: it fails after `second` has
    const Variable second = mul(w, 5);
    const HookHandle failing =
        first.add_hook([](const Tensor&) -> Tensor { throw Error("hook failed"); });
    EXPECT_ERROR(backward(add(first, second)), "hook failed");
  }
  w.zero_grad();
  backward(mul(w, 2));
  EXPECT_THAT(seen, ElementsAre(2));
  EXPECT_EQ(grad_of(w), 2.0);
}

TEST(TensorHook, MayDropTheRoot) {
  const Variable w = scalar_leaf(1);
  Variable root = mul(mul(w, 3), 2);
  const HookHandle handle = w.add_hook([&](const Tensor&) {
    root = Variable();
    return Tensor();
  });
  backward(root);
  EXPECT_EQ(grad_of(w), 6.0);
}

TEST(TensorHook, HandleMayOutliveTheVariable) {
  HookHandle handle;
  {
    const Variable w = scalar_leaf(1);
    handle = w.add_hook(multiply(2));
  }
  handle.detach();
}

TEST(TensorHook, MustReturnTheSameShape) {
  const Variable w(Tensor::zeros({}), true, "0.bias");
  const HookHandle handle = w.add_hook([](const Tensor&) { return Tensor::zeros({2}); });
  EXPECT_ERROR(backward(mul(w, 3)),
               "hook of '0.bias': expected a gradient f32 [] on cpu, got f32 [2] on cpu");
}

TEST(TensorHook, NeedsAVariableThatRequiresAGradient) {
  const Variable x(Tensor::zeros({}), false, "images");
  EXPECT_ERROR(static_cast<void>(x.add_hook(multiply(2))),
               "variable 'images': a hook needs a variable that requires a gradient");
}

}  // namespace
}  // namespace brigade::autograd
