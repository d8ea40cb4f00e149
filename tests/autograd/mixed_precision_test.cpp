#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "autograd/functions/fused_linear.h"
#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "core/cpu/threads.h"
#include "core/ops.h"
#include "core/runtime/context.h"
#include "tests/support/expect_error.h"
#include "tests/support/small_training.h"
#include "tests/support/tensors.h"

namespace brigade::autograd {
namespace {

using ops::Trans;
using test::numbers;

Tensor narrow(const Tensor& x) {
  Tensor y = Tensor::empty(x.shape(), DType::bf16);
  ops::narrow(x, y);
  return y;
}

/// x with the precision of bf16, in f32.
Tensor rounded(const Tensor& x) {
  Tensor y = Tensor::empty(x.shape());
  ops::widen(narrow(x), {}, y);
  return y;
}

std::vector<float> gradient(const Variable& variable) {
  return variable.grad_state()->grad().to_vector<float>();
}

TEST(MixedPrecision, FactorsAreRoundedAndSumsAreNot) {
  const Tensor a = numbers({5, 7}, 1);
  const Tensor b = numbers({7, 3}, 2);
  Tensor mixed = numbers({5, 3}, 3);
  Tensor expected = mixed.clone();
  ops::gemm(narrow(a), Trans::no, narrow(b), Trans::no, {.alpha = 0.5, .beta = 1.0}, mixed);
  ops::gemm(rounded(a), Trans::no, rounded(b), Trans::no, {.alpha = 0.5, .beta = 1.0}, expected);
  EXPECT_EQ(mixed.to_vector<float>(), expected.to_vector<float>());
  EXPECT_NE(mixed.to_vector<float>(), rounded(mixed).to_vector<float>());
}

/// Sizes that no tile divides, among others. With one thread a CPU with a unit for bf16 takes that,
/// which adds in another order. Any other CPU computes both sides alike, except for widening.
TEST(MixedPrecision, ProductsAreThoseOfRoundedFactorsOnAnyUnit) {
  set_cpu_threads(1);
  RecordProperty("unit", bf16_description());
  const auto no = Trans::no;
  const auto yes = Trans::yes;
  for (const auto& [m, n, k] : {std::array{5, 3, 7}, {64, 64, 64}, {33, 130, 257}, {1, 32, 96}}) {
    for (const auto& [ta, tb] :
         {std::pair(no, yes), std::pair(yes, no), std::pair(no, no), std::pair(yes, yes)}) {
      for (const Scale scale : {Scale{}, Scale{0.5, 0.0}, Scale{0.25, 1.0}, Scale{1.0, 0.5}}) {
        const Tensor a = numbers(ta == yes ? Shape{k, m} : Shape{m, k}, 1);
        const Tensor b = numbers(tb == yes ? Shape{n, k} : Shape{k, n}, 2);
        Tensor mixed = numbers({m, n}, 3);
        Tensor expected = mixed.clone();
        ops::gemm(narrow(a), ta, narrow(b), tb, scale, mixed);
        ops::gemm(rounded(a), ta, rounded(b), tb, scale, expected);
        EXPECT_LT(test::relative_l2(mixed.to_vector<float>(), expected.to_vector<float>()), 1e-6)
            << m << ' ' << n << ' ' << k << ' ' << scale.alpha << ' ' << scale.beta;
      }
    }
  }
}

TEST(MixedPrecision, NeedsF32ForItsSums) {
  const Tensor a = narrow(numbers({2, 2}, 1));
  for (const DType wrong : {DType::bf16, DType::f64}) {
    Tensor c = Tensor::empty({2, 2}, wrong);
    EXPECT_ERROR_OF(
        Error, ops::gemm(a, Trans::no, a, Trans::no, {}, c),
        fmt::format("gemm: expected a result of dtype f32 on cpu, got {} on cpu", wrong));
  }
}

TEST(MixedPrecision, AddsToAnEarlierGradientInF32) {
  const Tensor x = numbers({4, 6}, 1);
  const Tensor target = numbers({4, 3}, 4);
  const Variable weight(numbers({3, 6}, 2), true, "w");
  const auto backward_once = [&] {
    mse_loss(fused_linear(Variable(x), weight, Variable(), Activation::none, Precision::bf16),
             target)
        .backward();
  };
  backward_once();
  std::vector<float> expected = gradient(weight);
  for (float& value : expected) {
    value += value;
  }
  backward_once();
  EXPECT_EQ(gradient(weight), expected);
}

TEST(MixedPrecision, PassesNaNAndInfinityOn) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Tensor x = numbers({4, 6}, 1);
    x.data<float>()[7] = bad;
    const Variable weight(numbers({3, 6}, 2), true, "w");
    const Variable y =
        fused_linear(Variable(x), weight, Variable(), Activation::none, Precision::bf16);
    EXPECT_FALSE(std::isfinite(y.data().to_vector<float>()[3]));
    EXPECT_TRUE(std::isfinite(y.data().to_vector<float>()[0])) << "the row above";
  }
}

TEST(MixedPrecision, TakesAnEmptyBatch) {
  const Variable weight(numbers({3, 6}, 2), true, "w");
  const Variable y = fused_linear(Variable(Tensor::empty({0, 6})), weight, Variable(),
                                  Activation::none, Precision::bf16);
  EXPECT_EQ(y.shape(), (Shape{0, 3}));
}

TEST(MixedPrecision, RoundsNothingButF32) {
  const Variable x(Tensor::empty({2, 6}, DType::f64));
  const Variable weight(Tensor::empty({3, 6}, DType::f64), true, "w");
  EXPECT_ERROR(fused_linear(x, weight, Variable(), Activation::none, Precision::bf16),
               "linear: expected f32 to round to bf16, got f64");
}

/// Every product that a layer makes: forward y = x Wᵀ, backward dW = dzᵀ x and dx = dz W. What is
/// no product, the bias and its gradient, is not rounded, except what GELU's derivative is of.
TEST(MixedPrecision, ALayerRoundsWhatItMultipliesAndNothingElse) {
  const Tensor x = numbers({4, 6}, 1);
  const Tensor w = numbers({3, 6}, 2);
  const Tensor b = numbers({3}, 3);
  const Tensor target = numbers({4, 3}, 4);
  const std::vector<float> master = w.to_vector<float>();
  for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu}) {
    const bool gelu = activation == Activation::gelu;
    const Variable input(x, true, "x");
    const Variable weight(w, true, "w");
    const Variable bias(b, true, "b");
    const Variable y = fused_linear(input, weight, bias, activation, Precision::bf16);
    mse_loss(y, target).backward();

    Tensor out = Tensor::empty({4, 3});
    Tensor z = Tensor::empty({4, 3});
    ops::linear(rounded(x), rounded(w), b, out, activation, z);
    EXPECT_EQ(y.data().to_vector<float>(), out.to_vector<float>());
    Tensor dz = Tensor::empty({4, 3});
    const Tensor one = Tensor::from(std::vector<float>{1.0F}, {});
    ops::mse_backward(out, target, one, {}, dz);
    if (activation != Activation::none) {
      const Tensor dy = dz.clone();
      ops::unary_backward(function_of(activation), dy, gelu ? rounded(z) : out, {}, dz);
    }
    Tensor dw = Tensor::empty({3, 6});
    Tensor dx = Tensor::empty({4, 6});
    Tensor db = Tensor::empty({3});
    ops::gemm(rounded(dz), Trans::yes, rounded(x), Trans::no, {}, dw);
    ops::gemm(rounded(dz), Trans::no, rounded(w), Trans::no, {}, dx);
    ops::column_sum(dz, {}, db);
    EXPECT_EQ(gradient(weight), dw.to_vector<float>()) << static_cast<int>(activation);
    EXPECT_EQ(gradient(input), dx.to_vector<float>()) << static_cast<int>(activation);
    EXPECT_EQ(gradient(bias), db.to_vector<float>()) << static_cast<int>(activation);
    EXPECT_EQ(weight.data().to_vector<float>(), master) << "it is not rounded itself";
  }
}

/// Bytes that stay allocated for backward.
std::size_t kept_by_forward(Precision precision) {
  const Tensor x = numbers({2048, 64}, 1);
  const Variable w(numbers({64, 64}, 2), true, "w");
  const CachingAllocator& allocator = *Context::current().allocator(kCpu);
  const std::size_t before = allocator.stats().in_use;
  Variable y(x);
  for (int layer = 0; layer < 32; ++layer) {
    y = fused_linear(y, w, Variable(), Activation::relu, precision);
  }
  return allocator.stats().in_use - before;
}

TEST(MixedPrecision, KeepsActivationsInHalfTheMemory) {
  EXPECT_LE(static_cast<double>(kept_by_forward(Precision::bf16)),
            0.6 * static_cast<double>(kept_by_forward(Precision::full)));
}

TEST(MixedPrecision, ARoundedWeightIsThatOfItsForward) {
  const Variable x(numbers({2, 3}, 1), true, "x");
  const Variable w(numbers({2, 3}, 2), true, "w");
  const Variable y = fused_linear(x, w, Variable(), Activation::none, Precision::bf16);
  const Tensor before = rounded(w.data());
  Tensor moved = w.data();
  ops::fill(7.0, moved);  // whoever changes a weight between forward and backward
  mse_loss(y, Tensor::zeros({2, 2})).backward();
  Tensor dz = Tensor::empty({2, 2});
  ops::mse_backward(y.data(), Tensor::zeros({2, 2}), Tensor::from(std::vector<float>{1.0F}, {}), {},
                    dz);
  Tensor dx = Tensor::empty({2, 3});
  ops::gemm(rounded(dz), Trans::no, before, Trans::no, {}, dx);
  EXPECT_EQ(gradient(x), dx.to_vector<float>());
}

}  // namespace
}  // namespace brigade::autograd
