#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/functions/binary.h"
#include "autograd/functions/linear.h"
#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "core/ops.h"
#include "core/runtime/context.h"
#include "tests/autograd/probe.h"
#include "tests/support/expect_error.h"
#include "tests/support/on_backward.h"
#include "tests/support/tensors.h"

namespace brigade::autograd {
namespace {

using test::kNaN;
using testing::ElementsAre;

TEST(Accumulation, HasNoGradientBeforeTheFirstBackward) {
  EXPECT_FALSE(scalar_leaf(1).grad().defined());
  EXPECT_FALSE(Variable().grad().defined());
}

TEST(Accumulation, OverwritesWhateverTheMemoryHolds) {
  // beta = 0, so no zero-fill is needed: a fresh bucket may hold anything.
  const Variable w(Tensor::zeros({2, 2}), true);
  w.move_grad_to(Tensor::from(std::vector<float>(4, kNaN), {2, 2}));
  const Variable x(Tensor::from(std::vector<float>{1, 2}, {1, 2}));
  mse_loss(linear(x, w, Variable()), Tensor::from(std::vector<float>{-1, -3}, {1, 2})).backward();
  EXPECT_THAT(w.grad().to_vector<float>(), ElementsAre(1, 2, 3, 6));
}

TEST(Accumulation, OverwritesAfterZeroGradWithoutTouchingTheMemoryBefore) {
  const Variable w = scalar_leaf(2);
  mul(w, 3).backward();
  const Tensor memory = w.grad();
  w.zero_grad();
  EXPECT_FALSE(w.grad().defined());
  EXPECT_EQ(memory.item(), 3.0);
  ops::fill(kNaN, const_cast<Tensor&>(memory));
  mul(w, 5).backward();
  EXPECT_EQ(grad_of(w), 5.0);
}

TEST(Accumulation, AddsTheGradientsOfLaterBackwards) {
  const Variable w = scalar_leaf(2);
  mul(w, 3).backward();
  mul(w, 4).backward();
  EXPECT_EQ(grad_of(w), 7.0);
}

TEST(Accumulation, KeepsTheGradientAtOneAddress) {
  const Variable w = scalar_leaf(2);
  mul(w, 3).backward();
  const float* address = w.grad().data<float>();
  mul(w, 3).backward();
  w.zero_grad();
  mul(w, 3).backward();
  EXPECT_EQ(w.grad().data<float>(), address);
}

TEST(Accumulation, WritesIntoASliceOfSomeoneElsesMemory) {
  const Tensor bucket = Tensor::from(std::vector<float>{10, kNaN, 30}, {3});
  const Variable w = scalar_leaf(2);
  w.move_grad_to(bucket.flat_view(1, {}));
  EXPECT_FALSE(w.grad().defined());
  mul(w, 4).backward();
  EXPECT_THAT(bucket.to_vector<float>(), ElementsAre(10, 4, 30));
}

TEST(Accumulation, MovesAPresentGradientAlong) {
  const Variable w = scalar_leaf(2);
  mul(w, 4).backward();
  const Tensor place = Tensor::zeros({});
  w.move_grad_to(place);
  mul(w, 1).backward();
  EXPECT_EQ(place.item(), 5.0);
}

TEST(Accumulation, RefusesAGradientPlaceOfAnotherShape) {
  const Variable w(Tensor::zeros({2, 3}), true, "0.weight");
  EXPECT_ERROR(
      w.move_grad_to(Tensor::zeros({6})),
      "variable '0.weight': expected memory for a gradient f32 [2, 3] on cpu, got f32 [6] on cpu");
}

TEST(Accumulation, MovesTheDataWithItsValues) {
  const Tensor flat = Tensor::zeros({3});
  const Variable w(Tensor::from(std::vector<float>{1, 2}, {2}), true);
  w.move_data_to(flat.flat_view(1, {2}));
  EXPECT_THAT(flat.to_vector<float>(), ElementsAre(0, 1, 2));
  EXPECT_TRUE(w.data().same_storage(flat));
}

TEST(Accumulation, AddsBothUsesOfAVariableInOneNode) {
  const Variable w = scalar_leaf(2);
  add(w, w).backward();
  EXPECT_EQ(grad_of(w), 2.0);
}

TEST(Accumulation, AddsTheUsesOfAnIntermediateResult) {
  const Variable w = scalar_leaf(2);
  const Variable h = mul(w, 3);
  add(h, mul(h, 2)).backward();  // 3 (1 + 2)
  EXPECT_EQ(grad_of(w), 9.0);
}

TEST(Accumulation, GivesNothingToAnInputThatRequiresNoGradient) {
  EventLog log;
  const Variable x(Tensor::zeros({}));
  const Variable w = scalar_leaf(1);
  probe(log, "node", {x, w}).backward();
  EXPECT_THAT(log, ElementsAre("node:1"));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Accumulation, ScalesEveryContributionToALeafByItsLeafScale) {
  const Variable w = scalar_leaf(2);
  w.grad_state()->set_grad_scale(0.25);
  add(w, mul(w, 3)).backward();
  EXPECT_EQ(grad_of(w), 1.0);
  mul(w, 4).backward();
  EXPECT_EQ(grad_of(w), 2.0);
}

TEST(Accumulation, DoesNotScaleIntermediateGradients) {
  const Variable w = scalar_leaf(2);
  w.grad_state()->set_grad_scale(0.5);
  double seen = 0.0;
  const Variable h = test::on_backward(mul(w, 3), [&](const Tensor& grad) { seen = grad.item(); });
  mul(h, 2).backward();
  EXPECT_EQ(seen, 2.0);
  EXPECT_EQ(grad_of(w), 3.0);
}

TEST(Accumulation, CarriesThePresentValueOverWithItsFactorOnce) {
  const Variable w = scalar_leaf(2);
  mul(w, 8).backward();
  w.grad_state()->set_accumulate_scale(0.25);
  add(w, w).backward();
  EXPECT_EQ(grad_of(w), 4.0);  // 8 / 4 + 1 + 1
  mul(w, 1).backward();
  EXPECT_EQ(grad_of(w), 5.0);
}

TEST(Accumulation, StartsFromTheSeed) {
  const Variable w = scalar_leaf(2);
  mul(w, 3).backward(0.5);
  EXPECT_EQ(grad_of(w), 1.5);
}

TEST(Accumulation, AllocatesNothingInASteadyStep) {
  const Variable w(Tensor::zeros({8, 8}), true);
  const Variable b(Tensor::zeros({8}), true);
  const Variable x(Tensor::zeros({4, 8}));
  const Tensor target = Tensor::zeros({4, 8});
  const auto step = [&] {
    w.zero_grad();
    b.zero_grad();
    mse_loss(linear(linear(x, w, b), w, b), target).backward();
  };
  step();
  const auto before = Context::current().allocator(kCpu)->stats();
  step();
  const auto after = Context::current().allocator(kCpu)->stats();
  EXPECT_EQ(after.system_allocations, before.system_allocations);
  EXPECT_EQ(after.in_use, before.in_use);
}

}  // namespace
}  // namespace brigade::autograd
