// The order of events in a backward pass. Overlap of communication with computation lives or dies
// here: a gradient that is announced late is communicated late.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "autograd/functions/fused_linear.h"
#include "autograd/functions/linear.h"
#include "autograd/functions/loss.h"
#include "autograd/functions/unary.h"
#include "autograd/node.h"
#include "autograd/variable.h"
#include "core/ops.h"
#include "tests/autograd/probe.h"
#include "tests/support/on_backward.h"

namespace brigade::autograd {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

TEST(BackwardOrder, AnnouncesAWeightBeforeTheNextKernelOfItsOwnNode) {
  EventLog log;
  LoggingListener listener(log);
  const Variable w0 = scalar_leaf(1);
  const Variable w1 = scalar_leaf(1);
  const ListenerHandle h0 = w0.attach_listener(listener, 0);
  const ListenerHandle h1 = w1.attach_listener(listener, 1);
  const Variable hidden = probe(log, "lower", {w0});
  probe(log, "upper", {w1, hidden}).backward();
  EXPECT_THAT(log,
              ElementsAre("begin", "upper:0", "ready 1", "upper:1", "lower:0", "ready 0", "end"));
}

TEST(BackwardOrder, AnnouncesParametersBeforeAnyOtherNodeInWhateverOrderANodeListsItsInputs) {
  // Upper node: weight w, bias b, and the output of a lower node. All six orders.
  std::array<int, 3> order{0, 1, 2};
  do {
    EventLog log;
    LoggingListener listener(log);
    const Variable w = scalar_leaf(1);
    const Variable b = scalar_leaf(1);
    const ListenerHandle hw = w.attach_listener(listener, 0);
    const ListenerHandle hb = b.attach_listener(listener, 1);
    const std::array<Variable, 3> inputs{w, b, probe(log, "lower", {scalar_leaf(1)})};
    probe(log, "upper",
          {inputs[static_cast<std::size_t>(order[0])], inputs[static_cast<std::size_t>(order[1])],
           inputs[static_cast<std::size_t>(order[2])]})
        .backward();
    const auto place = [&](const char* event) {
      return std::find(log.begin(), log.end(), event) - log.begin();
    };
    EXPECT_LT(place("ready 0"), place("lower:0"));
    EXPECT_LT(place("ready 1"), place("lower:0"));
    for (std::size_t i = 0; i < 3; ++i) {  // at once: directly behind the kernel that made it
      if (order[i] != 2) {
        EXPECT_EQ(place(fmt::format("ready {}", order[i]).c_str()),
                  place(fmt::format("upper:{}", i).c_str()) + 1);
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(BackwardOrder, LinearMakesWhatTheNetworkWaitsForBeforeWhatOnlyThisRankWaitsFor) {
  EventLog log;
  LoggingListener listener(log);
  const Variable x(Tensor::zeros({2, 3}), true);
  const Variable w(Tensor::zeros({1, 3}), true);
  const Variable b(Tensor::zeros({1}), true);
  const ListenerHandle hx = x.attach_listener(listener, 0);
  const ListenerHandle hw = w.attach_listener(listener, 1);
  const ListenerHandle hb = b.attach_listener(listener, 2);
  mse_loss(linear(x, w, b), Tensor::zeros({2, 1})).backward();
  EXPECT_THAT(log, ElementsAre("begin", "ready 1", "ready 2", "ready 0", "end"));
  for (const Activation activation : {Activation::none, Activation::relu}) {
    log.clear();
    const Variable y = fused_linear(x, w, b, activation, Precision::bf16);
    mse_loss(y, Tensor::zeros({2, 1})).backward();
    EXPECT_THAT(log, ElementsAre("begin", "ready 1", "ready 2", "ready 0", "end"));
  }
}

/// y = a + b, whose backward writes both gradients at once: how a GPU computes dW and db.
Variable two_at_once(const Variable& a, const Variable& b) {
  return record("two at once", Tensor::zeros({}), {a, b}, [](const Tensor& dy, GradWriter& grads) {
    grads.write(1, [&](Tensor& db, Scale db_scale) {
      grads.write(0, [&](Tensor& da, Scale da_scale) {
        ops::axpby(dy, da_scale, da);
        ops::axpby(dy, db_scale, db);
      });
    });
  });
}

TEST(BackwardOrder, TwoGradientsThatOneKernelWritesAreBothInPlaceBeforeEitherIsAnnounced) {
  struct Reader final : GradListener {
    void on_grad_ready(std::size_t index) override {
      seen.push_back(fmt::format("{}: {} {}", index, grad_of(a), grad_of(b)));
    }
    Variable a = scalar_leaf(1);
    Variable b = scalar_leaf(2);
    EventLog seen;
  };
  Reader reader;
  const ListenerHandle ha = reader.a.attach_listener(reader, 0);
  const ListenerHandle hb = reader.b.attach_listener(reader, 1);
  const auto backward_once = [&] { two_at_once(reader.a, reader.b).backward(); };
  backward_once();
  backward_once();  // added to the first
  EXPECT_THAT(reader.seen, ElementsAre("0: 1 1", "1: 1 1", "0: 2 2", "1: 2 2"));
}

TEST(BackwardOrder, AnnouncesEveryWeightOfA40LayerMlpBeforeTheFollowingNodeRuns) {
  constexpr std::size_t kLayers = 40;
  constexpr std::int64_t kWidth = 3;
  EventLog log;
  LoggingListener listener(log);
  std::vector<ListenerHandle> handles;
  // Runs when the backward of the node that has computed `output` is about to start.
  const auto watch = [&](const Variable& output, const std::string& event) {
    return test::on_backward(output, [&log, event](const Tensor&) { log.push_back(event); });
  };
  EventLog expected;
  Variable x(Tensor::zeros({2, kWidth}));
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    const Variable w(Tensor::zeros({kWidth, kWidth}), true);
    const Variable b(Tensor::zeros({kWidth}), true);
    handles.push_back(w.attach_listener(listener, 2 * layer));
    handles.push_back(b.attach_listener(listener, 2 * layer + 1));
    x = watch(linear(x, w, b), fmt::format("linear {}", layer));
    x = watch(relu(x), fmt::format("relu {}", layer));
    expected.insert(expected.begin(),
                    {fmt::format("relu {}", layer), fmt::format("linear {}", layer),
                     fmt::format("ready {}", 2 * layer), fmt::format("ready {}", 2 * layer + 1)});
  }
  expected.insert(expected.begin(), "begin");
  expected.emplace_back("end");
  mse_loss(x, Tensor::zeros({2, kWidth})).backward();
  EXPECT_THAT(log, ElementsAreArray(expected));
}

TEST(BackwardOrder, RunsTheNodeRecordedLastFirst) {
  EventLog log;
  const Variable w = scalar_leaf(1);
  const Variable first = probe(log, "first", {w});
  const Variable second = probe(log, "second", {w});
  probe(log, "top", {second, first}).backward();
  EXPECT_THAT(log, ElementsAre("top:0", "top:1", "second:0", "first:0"));
}

TEST(BackwardOrder, RunsANodeOnlyWhenItsWholeGradientIsThere) {
  // `shared` feeds `top` directly and through `longer`: it must wait for the longer way.
  EventLog log;
  const Variable w = scalar_leaf(1);
  const Variable shared = probe(log, "shared", {w});
  const Variable longer = probe(log, "longer", {shared});
  probe(log, "top", {shared, longer}).backward();
  EXPECT_THAT(log, ElementsAre("top:0", "top:1", "longer:0", "shared:0"));
  EXPECT_EQ(grad_of(w), 2.0);
}

TEST(BackwardOrder, AnnouncesAWeightUsedThreeTimesOnceAfterItsLastContribution) {
  EventLog log;
  LoggingListener listener(log);
  const Variable w = scalar_leaf(1);
  const ListenerHandle handle = w.attach_listener(listener, 7);
  const Variable lower = probe(log, "lower", {w});
  probe(log, "upper", {w, lower, w}).backward();
  EXPECT_THAT(log,
              ElementsAre("begin", "upper:0", "upper:1", "upper:2", "lower:0", "ready 7", "end"));
  EXPECT_EQ(grad_of(w), 3.0);
}

TEST(BackwardOrder, AnnouncesAGradientThatIsAlreadyInPlace) {
  struct Reader final : GradListener {
    explicit Reader(Variable w) : variable(std::move(w)) {}
    void on_grad_ready(std::size_t /*index*/) override { seen = grad_of(variable); }
    Variable variable;
    double seen = 0.0;
  };
  EventLog log;
  const Variable w = scalar_leaf(1);
  Reader reader(w);
  const ListenerHandle handle = w.attach_listener(reader, 0);
  probe(log, "node", {w, w}).backward();
  EXPECT_EQ(reader.seen, 2.0);
}

}  // namespace
}  // namespace brigade::autograd
