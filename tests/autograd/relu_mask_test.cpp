// Who masks the gradient of a ReLU's output: the node that computes it, or the ReLU's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/functions/binary.h"
#include "autograd/functions/linear.h"
#include "autograd/node.h"
#include "core/ops.h"
#include "tests/autograd/probe.h"
#include "tests/support/expect_error.h"

namespace brigade::autograd {
namespace {

using testing::ElementsAre;

/// y = x, which claims to be the output of a ReLU whose mask may be taken. Logs whether it was.
class MaskedNode final : public Node {
 public:
  MaskedNode(EventLog& log, Tensor y) : log_(log), mask_{.y = std::move(y), .bits = {}} {}
  const char* name() const override { return "masked"; }
  void backward(const Tensor& dy, GradWriter& grads) override {
    log_.emplace_back(grads.dy_is_masked() ? "came masked" : "masks");
    grads.write(0, [&](Tensor& dx, Scale scale) { ops::axpby(dy, scale, dx); });
  }
  const ReluMask* relu_mask() const override { return &mask_; }
  void release() override {}

 private:
  EventLog& log_;
  ReluMask mask_;
};

/// y = x, which takes a mask where it can. Afterwards its other input gets a gradient.
class TakingNode final : public Node {
 public:
  TakingNode(EventLog& log, bool fails) : log_(log), fails_(fails) {}
  const char* name() const override { return "taking"; }
  void backward(const Tensor& dy, GradWriter& grads) override {
    const ReluMask* mask = grads.take_mask(0);
    log_.emplace_back(mask == nullptr ? "took none" : "took");
    BRIGADE_CHECK(!fails_, "taking: fails");
    for (const std::size_t input : {0U, 1U}) {
      grads.write(input, [&](Tensor& dx, Scale scale) { ops::axpby(dy, scale, dx); });
    }
  }
  void release() override {}

 private:
  EventLog& log_;
  bool fails_;
};

Variable masked(EventLog& log, const Variable& x) {
  return record<MaskedNode>(x.data(), {x}, log, x.data());
}
Variable taking(EventLog& log, const Variable& x, bool fails = false,
                const Variable& other = scalar_leaf(0)) {
  return record<TakingNode>(x.data(), {x, other}, log, fails);
}

TEST(TakenMask, IsToldToItsMaker) {
  EventLog log;
  backward(taking(log, masked(log, scalar_leaf(1))));
  EXPECT_THAT(log, ElementsAre("took", "came masked"));
}

TEST(TakenMask, IsTakenAgainByASecondBackwardThroughTheSameGraph) {
  EventLog log;
  const Variable y = taking(log, masked(log, scalar_leaf(1)));
  backward(y, {.retain_graph = true});
  backward(y);
  EXPECT_THAT(log, ElementsAre("took", "came masked", "took", "came masked"));
}

TEST(TakenMask, IsNotThereForAGradientThatAnotherUseAddsTo) {
  EventLog log;
  const Variable h = masked(log, scalar_leaf(1));
  backward(add(taking(log, h), taking(log, h)));
  EXPECT_THAT(log, ElementsAre("took none", "took none", "masks"));
}

TEST(TakenMask, IsNotThereWhereAHookSeesTheGradient) {
  EventLog log;
  const Variable h = masked(log, scalar_leaf(1));
  {
    const HookHandle handle = h.add_hook([](const Tensor&) { return Tensor(); });
    backward(taking(log, h), {.retain_graph = true});
  }
  EXPECT_THAT(log, ElementsAre("took none", "masks"));
  backward(taking(log, h));  // the hook is gone
  EXPECT_THAT(log, ElementsAre("took none", "masks", "took", "came masked"));
}

TEST(TakenMask, IsAppliedOnceMoreWhereAHookCameAfterItWasTaken) {
  EventLog log;
  const Variable h = masked(log, scalar_leaf(1));
  const Variable between = scalar_leaf(1);
  HookHandle late;
  const HookHandle handle = between.add_hook([&](const Tensor&) {
    late = h.add_hook([](const Tensor&) { return Tensor(); });
    return Tensor();
  });
  backward(taking(log, h, false, between));
  EXPECT_THAT(log, ElementsAre("took", "masks")) << "the hook may have replaced what was masked";
}

TEST(TakenMask, IsNotThereForWhatNoReLUMade) {
  EventLog log;
  const Variable leaf = scalar_leaf(1);
  backward(taking(log, leaf));
  backward(taking(log, mul(leaf, 2)));
  backward(taking(log, Variable(mul(leaf, 2).data(), true)));
  EXPECT_THAT(log, ElementsAre("took none", "took none", "took none"));
}

TEST(TakenMask, IsForgottenByABackwardThatFailsBeforeItIsApplied) {
  EventLog log;
  const Variable h = masked(log, scalar_leaf(1));
  EXPECT_ERROR(backward(taking(log, h, /*fails=*/true)), "taking: fails");
  backward(probe(log, "probe", {h}));
  EXPECT_THAT(log, ElementsAre("took", "probe:0", "masks"));
}

TEST(TakenMask, IsOfferedByALinearLayerOnlyWhereItsDeviceMasksInTheProduct) {
  const Variable x(Tensor::zeros({2, 3}), true);
  const Variable w(Tensor::zeros({4, 3}), true);
  const Variable y = linear_relu(x, w, Variable());
  EXPECT_EQ(y.grad_state()->producer->relu_mask(), nullptr) << "not on the CPU";
}

}  // namespace
}  // namespace brigade::autograd
