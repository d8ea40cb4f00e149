#include "autograd/variable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/functions/binary.h"
#include "autograd/functions/loss.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace brigade::autograd {
namespace {

using testing::ElementsAre;

constexpr Device kGpu{DeviceType::cuda, 0};

class SilentListener final : public GradListener {
 public:
  void on_grad_ready(std::size_t) override {}
};

TEST(Variable, BackwardScalesTheGradient) {
  const Variable w(test::f32({1, -3}, {2}), true);
  const Variable loss = mse_loss(w, Tensor::zeros({2}));
  EXPECT_EQ(loss.item(), 5.0F);
  loss.backward(0.5);
  EXPECT_THAT(test::values(w.grad()), ElementsAre(0.5F, -1.5F));
}

TEST(Variable, UndefinedHasNoValueToComputeWith) {
  const Variable none;
  const Variable one(Tensor::zeros({1}));
  const char* message = "variable: expected one with a value, got an undefined one";
  EXPECT_ERROR(static_cast<void>(none.item()), message);
  EXPECT_ERROR(static_cast<void>(none.shape()), message);
  EXPECT_ERROR(none.zero_grad(), message);
  EXPECT_ERROR(mul(one, none), message);
  EXPECT_ERROR(div(none, 2), message);
}

TEST(Variable, HasOneIdentityForAllItsHandles) {
  const Variable w(test::f32({1}, {1}));
  const Variable copy = w;
  const Variable other(w.data());
  EXPECT_EQ(w.identity(), copy.identity());
  EXPECT_NE(w.identity(), other.identity());
}

TEST(Variable, MovesOnlyWhereItIsALeaf) {
  const Variable w(test::f32({1}, {1}), true, "w");
  EXPECT_ERROR(mul(w, 2).move_to(kGpu),
               "variable '': only a leaf can move to another device; move the parameters it was "
               "computed from");
}

TEST(Variable, DoesNotMoveUnderADataParallel) {
  const Variable w(test::f32({1}, {1}), true, "w");
  SilentListener listener;
  const ListenerHandle handle = w.attach_listener(listener, 0);
  EXPECT_ERROR(w.move_to(kGpu),
               "variable 'w': expected to move to cuda:0 before a DataParallel wraps it, but one "
               "does; call to(device) first");
}

}  // namespace
}  // namespace brigade::autograd
