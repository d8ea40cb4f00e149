#include <cmath>

#include "autograd/functions/binary.h"
#include "autograd/functions/reduce.h"
#include "autograd/functions/softmax.h"
#include "autograd/functions/unary.h"
#include "autograd/variable.h"
#include "core/arithmetic.h"
#include "core/ops.h"
#include "tests/gpu/gpu_test.h"

namespace brigade {
namespace {

template <class T>
class ArithmeticOnGpu : public KernelTest<T> {};
TYPED_TEST_SUITE(ArithmeticOnGpu, FloatTypes);

constexpr BinaryOp kBinaryOps[] = {BinaryOp::add, BinaryOp::sub, BinaryOp::mul, BinaryOp::div};
constexpr UnaryOp kUnaryOps[] = {UnaryOp::exp,  UnaryOp::log,     UnaryOp::sqrt, UnaryOp::square,
                                 UnaryOp::tanh, UnaryOp::sigmoid, UnaryOp::gelu};

TYPED_TEST(ArithmeticOnGpu, BinaryEqualsTheCpuForEveryWayToBroadcast) {
  const std::vector<std::pair<Shape, Shape>> shapes{{{0}, {1}},
                                                    {{1}, {}},
                                                    {{1000}, {1000}},
                                                    {{65537}, {}},
                                                    {{}, {7, 300}},
                                                    {{7, 300}, {300}},
                                                    {{300}, {7, 300}},
                                                    {{7, 1}, {1, 300}},
                                                    {{5, 1, 9}, {4, 1}},
                                                    {{0, 3}, {3}},
                                                    {{3, 1, 2, 5}, {3, 4, 1, 1}},
                                                    {{2, 3, 4, 5}, {3, 1, 5}}};
  for (const BinaryOp op : kBinaryOps) {
    for (const auto& [a, b] : shapes) {
      const Shape y = ops::broadcast_shape(op, a, b);
      for (const double beta : {0.0, -0.5}) {
        const Tensor place = beta == 0.0 ? this->garbage(y) : this->numbers(y, 3);
        this->expect_same({this->numbers(a, 1), this->numbers(b, 2), place}, [&](Tensors& t) {
          ops::binary(op, t[0], t[1], {.alpha = 2.0, .beta = beta}, t[2]);
        });
      }
    }
  }
}

TYPED_TEST(ArithmeticOnGpu, UnaryEqualsTheCpu) {
  for (const UnaryOp op : kUnaryOps) {
    for (const std::int64_t n : kSizes) {
      this->expect_same(
          {this->numbers({n}, 1), this->garbage({n})},
          [op](Tensors& t) { ops::unary(op, t[0], t[1]); }, 4 * this->kTolerance);
    }
  }
}

TYPED_TEST(ArithmeticOnGpu, UnaryBackwardEqualsTheCpu) {
  for (const UnaryOp op : kUnaryOps) {
    for (const double beta : {0.0, 1.0}) {
      const Tensor dx = beta == 0.0 ? this->garbage({1000}) : this->numbers({1000}, 3);
      this->expect_same(
          {this->numbers({1000}, 1), this->numbers({1000}, 2), dx},
          [&](Tensors& t) {
            ops::unary_backward(op, t[0], t[1], {.alpha = 0.5, .beta = beta}, t[2]);
          },
          4 * this->kTolerance);
    }
  }
}

TYPED_TEST(ArithmeticOnGpu, AUsersOwnLossHasTheGradientOfTheCpu) {
  using namespace autograd;
  const auto gradients = [](Tensors& t) {
    const Variable x(t[0], true);
    const Variable row(t[1], true);
    const Variable loss = mean(sqrt(1 + square(x - row)) - 1) - sum(log_softmax(x * row)) / 100 +
                          sum(softmax(x, 0) * max(x, 1, true));
    loss.backward();
    t[0] = x.grad();
    t[1] = row.grad();
  };
  this->expect_same({this->numbers({33, 70}, 1), this->numbers({70}, 2)}, gradients,
                    100 * this->kTolerance);
}

}  // namespace
}  // namespace brigade
