// Parameters that move in memory between two steps: the optimizer's state goes with them.
#include <gmock/gmock.h>

#include "core/runtime/context.h"
#include "optim/adam.h"
#include "optim/sgd.h"

namespace brigade::optim {
namespace {

using autograd::Variable;
using Row = std::vector<float>;

/// Two parameters with room to move.
struct Pair {
  Variable a{Tensor::from(Row{1, -2, 3}, {3}), true, "a"};
  Variable b{Tensor::from(Row{0.5F, 4, -1, 2}, {4}), true, "b"};

  void set_gradients(float factor) const {
    for (const Variable& variable : {a, b}) {
      Row values = variable.data().to_vector<float>();
      for (float& value : values) {
        value = factor * (value + 1);
      }
      variable.grad_state()->set_grad(Tensor::from(values, variable.shape()));
    }
  }

  /// Into two flat tensors: each parameter to its element.
  void move(std::int64_t a_at, std::int64_t b_at) const {
    const Tensor data = Tensor::zeros({40});
    const Tensor grad = Tensor::zeros({40});
    a.move_data_to(data.flat_view(a_at, {3}));
    a.move_grad_to(grad.flat_view(a_at, {3}));
    b.move_data_to(data.flat_view(b_at, {4}));
    b.move_grad_to(grad.flat_view(b_at, {4}));
  }
};

template <class OptimizerT>
Row train(typename OptimizerT::Options options, bool moving) {
  const Pair pair;
  OptimizerT optimizer({pair.a, pair.b}, options);
  // Apart, then joined with padding between them, then joined the other way round, then apart.
  const std::vector<std::pair<std::int64_t, std::int64_t>> places{{0, 30}, {0, 8}, {4, 0}, {30, 0}};
  for (std::size_t step = 0; step < 2 * places.size(); ++step) {
    pair.set_gradients(0.1F * static_cast<float>(step + 1));
    if (moving) {
      const auto [a_at, b_at] = places[step % places.size()];
      pair.move(a_at, b_at);
    }
    optimizer.step();
  }
  Row weights = pair.a.data().to_vector<float>();
  const Row more = pair.b.data().to_vector<float>();
  weights.insert(weights.end(), more.begin(), more.end());
  return weights;
}

TEST(MovedParameters, KeepTheirMomentum) {
  const SGD::Options options{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true};
  EXPECT_EQ(train<SGD>(options, true), train<SGD>(options, false));
}

TEST(MovedParameters, KeepBothOfAdamsMoments) {
  EXPECT_EQ(train<Adam>({.lr = 0.1}, true), train<Adam>({.lr = 0.1}, false));
}

TEST(MovedParameters, NeedNoState) {
  EXPECT_EQ(train<SGD>({.lr = 0.1}, true), train<SGD>({.lr = 0.1}, false));
}

TEST(MovedParameters, AreNoticedWhenOnlyAGradientHasMoved) {
  const Pair pair;
  SGD optimizer({pair.a, pair.b}, {.lr = 1.0});
  pair.a.move_grad_to(Tensor::zeros({3}));
  pair.a.grad_state()->set_grad(Tensor::from(Row{1, 1, 1}, {3}));
  pair.b.grad_state()->set_grad(Tensor::zeros({4}));
  optimizer.step();
  EXPECT_THAT(pair.a.data().to_vector<float>(), testing::ElementsAre(0, -3, 2));
}

TEST(MovedParameters, LeaveNoMemoryBehind) {
  const Pair pair;
  Adam optimizer({pair.a, pair.b}, {.lr = 0.1});
  pair.set_gradients(1.0F);
  pair.move(0, 30);
  optimizer.parts();  // allocates the state
  pair.move(0, 8);
  optimizer.parts();  // follows them
  const MemoryStats stats = Context::current().allocator(kCpu)->stats();
  EXPECT_EQ(stats.reserved, stats.in_use);
}

TEST(MovedParameters, LeaveThePaddingZero) {
  const Pair pair;
  Adam optimizer({pair.a, pair.b}, {.lr = 0.1});
  for (int step = 0; step < 3; ++step) {
    pair.set_gradients(1.0F);
    if (step == 1) {
      pair.move(0, 8);
    }
    optimizer.step();
  }
  // Weights that are joined with the padding between them are updated together with it.
  const Row padding = pair.a.data().spanning(8).to_vector<float>();
  EXPECT_THAT(Row(padding.begin() + 3, padding.end()), testing::Each(0.0F));
}

}  // namespace
}  // namespace brigade::optim
