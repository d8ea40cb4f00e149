#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/functions/binary.h"
#include "autograd/functions/linear.h"
#include "autograd/functions/loss.h"
#include "autograd/functions/reduce.h"
#include "autograd/functions/unary.h"
#include "autograd/grad_mode.h"
#include "autograd/graph_dot.h"
#include "autograd/node.h"
#include "autograd/variable.h"
#include "core/runtime/context.h"
#include "tests/autograd/probe.h"
#include "tests/support/expect_error.h"

namespace brigade::autograd {
namespace {

/// y = 0, whose backward calls write() `times` times.
Variable careless(const Variable& x, int times) {
  return record("careless", Tensor::zeros({}), {x}, [times](const Tensor&, GradWriter& grads) {
    for (int i = 0; i < times; ++i) {
      grads.write(0, [](Tensor& dx, Scale /*scale*/) { dx.zero(); });
    }
  });
}

std::size_t bytes_in_use() {
  return Context::current().allocator(kCpu)->stats().in_use;
}

TEST(Graph, IsFreedByBackward) {
  const Variable w = scalar_leaf(2);
  const Variable y = mul(w, 3);
  y.backward();
  EXPECT_ERROR(y.backward(),
               "backward: the graph behind mul was freed by an earlier backward; call forward "
               "again, or backward once "
               "on the sum of the losses");
}

TEST(Graph, GivesTheSavedTensorsBackDuringBackward) {
  const Variable w(Tensor::zeros({64, 64}), true);
  const Variable loss = mse_loss(relu(linear(Variable(Tensor::zeros({64, 64})), w, Variable())),
                                 Tensor::zeros({64, 64}));
  const std::size_t before = bytes_in_use();
  loss.backward();
  // x, y = relu's output, prediction and target go (relu's output is mse's input); dW comes.
  EXPECT_EQ(bytes_in_use(), before - 3 * 64 * 64 * sizeof(float) + 64 * 64 * sizeof(float));
}

TEST(Graph, KeepsNoActivationThatNoFunctionSaved) {
  const Variable w(Tensor::zeros({64, 64}), true);
  const Variable x(Tensor::zeros({64, 64}));
  const std::size_t before = bytes_in_use();
  const Variable y = relu(linear(x, w, Variable()));  // relu saves its output, nobody the linear's
  EXPECT_EQ(bytes_in_use(), before + 64 * 64 * sizeof(float));
}

TEST(Graph, IsNotRecordedWhereNoInputRequiresAGradient) {
  const Variable x(Tensor::zeros({}));
  EXPECT_FALSE(mul(x, 2).requires_grad());
}

TEST(Graph, IsNotRecordedUnderNoGradGuard) {
  const Variable w = scalar_leaf(2);
  {
    const NoGradGuard outer;
    { const NoGradGuard inner; }
    EXPECT_FALSE(grad_enabled());
    EXPECT_FALSE(mul(w, 2).requires_grad());
  }
  EXPECT_TRUE(grad_enabled());
  EXPECT_TRUE(mul(w, 2).requires_grad());
}

TEST(Graph, RefusesARootThatRequiresNoGradient) {
  const NoGradGuard no_grad;
  EXPECT_ERROR(mul(scalar_leaf(2), 2).backward(),
               "backward: the root requires no gradient: nothing it depends on does, or it was "
               "computed under NoGradGuard");
}

TEST(Graph, RefusesARootWithSeveralElements) {
  const Variable w(Tensor::zeros({2, 3}), true);
  EXPECT_ERROR(mul(w, 2).backward(), "backward: expected a scalar root, got [2, 3]");
}

TEST(Graph, MayConsistOfALeafAlone) {
  const Variable w = scalar_leaf(2);
  w.backward(3);
  EXPECT_EQ(grad_of(w), 3.0);
}

TEST(Graph, Of100000NodesNeitherRunsNorDiesRecursively) {
  const Variable w = scalar_leaf(1);
  {
    Variable y = w;
    for (int i = 0; i < 100'000; ++i) {
      y = mul(y, 1.0);
    }
    y.backward();
    EXPECT_EQ(grad_of(w), 1.0);
  }
  Variable unused = w;
  for (int i = 0; i < 100'000; ++i) {
    unused = mul(unused, 1.0);  // destroyed without a backward
  }
}

TEST(Graph, NamesAFunctionThatOwesAGradient) {
  const Variable w = scalar_leaf(1);
  EXPECT_ERROR(careless(w, 0).backward(), "backward: careless: expected 1 gradients, got 0");
}

TEST(Graph, RefusesAGradientThatIsDeliveredTwice) {
  const Variable w = scalar_leaf(1, "0.bias");
  EXPECT_ERROR(careless(w, 2).backward(),
               "backward: a function wrote the gradient of '0.bias' twice");
}

TEST(Graph, CanBeWalkedAfterABackwardThatWasRefused) {
  // `fresh` and `freed` meet in `both`, whose backward is refused halfway through the discovery of
  // the graph.
  for (const bool fresh_first : {true, false}) {
    const Variable w = scalar_leaf(2);
    const Variable v = scalar_leaf(2);
    const Variable fresh = mul(w, 3);
    const Variable freed = mul(v, 4);
    const Variable both = fresh_first ? add(fresh, freed) : add(freed, fresh);
    freed.backward();
    EXPECT_THROW(both.backward(), Error);
    mul(fresh, 1).backward();
    ASSERT_TRUE(w.grad().defined()) << "fresh first: " << fresh_first;
    EXPECT_EQ(grad_of(w), 3.0);
  }
}

TEST(GraphDot, HasABoxPerFunctionAnEllipsePerLeafAndArrowsToResults) {
  const Variable w(Tensor::from(std::vector<float>{1, 2}, {2}), true, "w");
  const Variable constant(Tensor::from(std::vector<float>{3, 4}, {2}));
  const Variable y = sum(w * constant + w);
  const std::string graph =
      graph_dot(y, [](const GradState& leaf) { return "label=\"" + leaf.name() + "\""; });
  EXPECT_EQ(graph,
            "digraph {\n  node [shape=box, style=filled, fillcolor=white];\n"
            "  v0 [label=\"sum\"];\n  v1 [label=\"add\"];\n  v3 [shape=ellipse, label=\"w\"];\n"
            "  v2 [label=\"mul\"];\n"
            "  v1 -> v0;\n  v2 -> v1;\n  v3 -> v1;\n  v3 -> v2;\n}\n");
  EXPECT_ERROR(graph_dot(constant, [](const GradState&) { return std::string(); }),
               "graph: expected a variable that requires a gradient");
}

}  // namespace
}  // namespace brigade::autograd
