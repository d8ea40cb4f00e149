#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/runtime/context.h"
#include "optim/optimizer.h"
#include "optim/sgd.h"

namespace brigade::optim {
namespace {

using autograd::Variable;
using testing::ElementsAre;

/// A parameter of `numel` elements whose data and gradient lie at these elements of two flat
/// buffers.
Variable placed(std::int64_t numel, const Tensor& data, std::int64_t data_at, const Tensor& grad,
                std::int64_t grad_at) {
  const Variable variable(Tensor::zeros({numel}), /*requires_grad=*/true);
  variable.move_data_to(data.flat_view(data_at, {numel}));
  variable.move_grad_to(grad.flat_view(grad_at, {numel}));
  return variable;
}

std::vector<std::vector<std::size_t>> members_of(const std::vector<FlatSpan>& spans) {
  std::vector<std::vector<std::size_t>> members;
  for (const FlatSpan& span : spans) {
    members.push_back(span.members);
  }
  return members;
}

TEST(FlatSpans, JoinParametersThatAdjoinInDataAndGradient) {
  const Tensor data = Tensor::zeros({10});
  const Tensor grad = Tensor::zeros({10});
  const auto spans = flat_spans({placed(4, data, 0, grad, 0), placed(6, data, 4, grad, 4)});
  EXPECT_THAT(members_of(spans), ElementsAre(ElementsAre(0, 1)));
  EXPECT_THAT(spans[0].offsets, ElementsAre(0, 4));
  EXPECT_EQ(spans[0].numel, 10);
}

TEST(FlatSpans, FollowMemoryNotTheOrderOfTheList) {
  // Buckets hold the parameters in reverse order of registration.
  const Tensor data = Tensor::zeros({10});
  const Tensor grad = Tensor::zeros({10});
  const auto spans = flat_spans({placed(4, data, 6, grad, 6), placed(6, data, 0, grad, 0)});
  EXPECT_THAT(members_of(spans), ElementsAre(ElementsAre(1, 0)));
  EXPECT_THAT(spans[0].offsets, ElementsAre(0, 6));
}

TEST(FlatSpans, HoldAParameterWithoutElementsBeforeTheOneBehindIt) {
  const Tensor data = Tensor::zeros({10});
  const Tensor grad = Tensor::zeros({10});
  const auto at = [&](std::int64_t numel, std::int64_t place) {
    return placed(numel, data, place, grad, place);
  };
  for (const auto& parameters :
       {std::vector{at(4, 0), at(0, 4), at(6, 4)}, std::vector{at(4, 0), at(6, 4), at(0, 4)}}) {
    const auto spans = flat_spans(parameters);
    ASSERT_EQ(spans.size(), 1U);
    EXPECT_EQ(spans[0].numel, 10);
  }
}

TEST(FlatSpans, BridgeTheSamePaddingInDataAndGradient) {
  const Tensor data = Tensor::zeros({12});
  const Tensor grad = Tensor::zeros({12});
  const auto spans = flat_spans({placed(3, data, 0, grad, 0), placed(4, data, 8, grad, 8)});
  EXPECT_THAT(members_of(spans), ElementsAre(ElementsAre(0, 1)));
  EXPECT_THAT(spans[0].offsets, ElementsAre(0, 8));
  EXPECT_EQ(spans[0].numel, 12);
}

TEST(FlatSpans, DoNotJoinAcrossALargeGap) {
  const Tensor data = Tensor::zeros({1000});
  const Tensor grad = Tensor::zeros({1000});
  const auto spans = flat_spans({placed(3, data, 0, grad, 0), placed(4, data, 500, grad, 500)});
  EXPECT_EQ(spans.size(), 2U);
}

TEST(FlatSpans, DoNotJoinWhereTheGradientsLieDifferently) {
  const Tensor data = Tensor::zeros({10});
  const Tensor grad = Tensor::zeros({10});
  const auto swapped = flat_spans({placed(5, data, 0, grad, 5), placed(5, data, 5, grad, 0)});
  EXPECT_EQ(swapped.size(), 2U);
  const Tensor other = Tensor::zeros({10});
  const auto apart = flat_spans({placed(5, data, 0, grad, 0), placed(5, data, 5, other, 5)});
  EXPECT_EQ(apart.size(), 2U);
}

TEST(FlatSpans, GiveAGradientPlaceToAParameterThatHasNone) {
  const Variable w(Tensor::zeros({2, 3}), true);
  const auto spans = flat_spans({w});
  EXPECT_EQ(spans.size(), 1U);
  EXPECT_EQ(w.grad_state()->grad().numel(), 6);
  EXPECT_FALSE(w.grad().defined()) << "a place is not yet a gradient";
}

TEST(FlatSpans, UpdateEveryMemberInPlace) {
  const Tensor data = Tensor::zeros({12});
  const Tensor grad = Tensor::zeros({12});
  const Variable a = placed(3, data, 0, grad, 0);
  const Variable b = placed(4, data, 8, grad, 8);
  a.grad_state()->set_grad(Tensor::from(std::vector<float>{1, 2, 3}, {3}));
  b.grad_state()->set_grad(Tensor::from(std::vector<float>{4, 5, 6, 7}, {4}));
  SGD optimizer({a, b}, {.lr = 1.0});
  const std::vector<ParamRange> parts = optimizer.parts();
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].data.bytes(), data.bytes());
  EXPECT_EQ(parts[0].grad.bytes(), grad.bytes());
  EXPECT_EQ(parts[0].grad.numel(), 12);
  optimizer.step();
  EXPECT_THAT(a.data().to_vector<float>(), ElementsAre(-1, -2, -3));
  EXPECT_THAT(b.data().to_vector<float>(), ElementsAre(-4, -5, -6, -7));
}

}  // namespace
}  // namespace brigade::optim
