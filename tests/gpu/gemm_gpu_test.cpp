#include "core/ops.h"
#include "core/runtime/context.h"
#include "tests/gpu/gpu_test.h"

namespace brigade {
namespace {

using ops::Trans;

struct Sizes {
  std::int64_t m, n, k;
};
constexpr Sizes kProducts[] = {{1, 1, 1}, {3, 5, 7}, {64, 10, 513}, {1, 1000, 17}, {257, 129, 65}};

template <class T>
class GemmOnGpu : public KernelTest<T> {
 protected:
  // Sums of k products in another order than the CPU's.
  static constexpr double kTolerance = 10 * KernelTest<T>::kTolerance;
};
TYPED_TEST_SUITE(GemmOnGpu, FloatTypes);

TYPED_TEST(GemmOnGpu, EqualsTheCpuForEveryTransposition) {
  for (const auto [m, n, k] : kProducts) {
    for (const Trans a : {Trans::no, Trans::yes}) {
      for (const Trans b : {Trans::no, Trans::yes}) {
        const Tensor left = this->numbers(a == Trans::no ? Shape{m, k} : Shape{k, m}, 1);
        const Tensor right = this->numbers(b == Trans::no ? Shape{k, n} : Shape{n, k}, 2);
        this->expect_same(
            {left, right, this->numbers({m, n}, 3)},
            [a, b](Tensors& t) { ops::gemm(t[0], a, t[1], b, {.alpha = 0.5, .beta = 1.0}, t[2]); },
            this->kTolerance);
      }
    }
  }
}

TYPED_TEST(GemmOnGpu, WithBetaZeroIgnoresTheDestination) {
  this->expect_same(
      {this->numbers({33, 65}, 1), this->numbers({65, 17}, 2), this->garbage({33, 17})},
      [](Tensors& t) { ops::gemm(t[0], Trans::no, t[1], Trans::no, {}, t[2]); }, this->kTolerance);
}

using MatmulPrecisionOnGpu = GpuTest;

TEST_F(MatmulPrecisionOnGpu, RoundsFactorsOnlyWhereItIsAllowed) {
  // cuBLAS may, but need not, take such a kernel; for a product as large as this it should.
  constexpr std::int64_t kSize = 512;
  constexpr auto kNumbers = static_cast<std::size_t>(kSize * kSize);
  // 1 + 2^-12 is a float but no TF32 number, 1 + 2^-9 one of TF32 but not of bf16. Their products
  // with 1 show what was rounded.
  const Tensor b = Tensor::from(std::vector<float>(kNumbers, 1.0F), {kSize, kSize}, kGpu);
  const auto product = [&](MatmulPrecision precision, float number) {
    const Tensor a = Tensor::from(std::vector<float>(kNumbers, number), {kSize, kSize}, kGpu);
    Context::current().set_matmul_precision(precision);
    Tensor c = Tensor::empty({kSize, kSize}, DType::f32, kGpu);
    ops::gemm(a, Trans::no, b, Trans::no, {}, c);
    Context::current().set_matmul_precision(MatmulPrecision::highest);
    return c.to_vector<float>()[0];
  };
  constexpr float kFloat = 1.0F + 0x1p-12F;
  constexpr float kTf32 = 1.0F + 0x1p-9F;
  EXPECT_FLOAT_EQ(product(MatmulPrecision::highest, kFloat), 512.0F + 0x1p-3F);
  EXPECT_EQ(product(MatmulPrecision::high, kFloat), 512.0F);
  EXPECT_EQ(product(MatmulPrecision::high, kTf32), 513.0F);
  // `medium` allows bf16; cuBLAS may use TF32, as for `high`, where it has no bf16 kernel for f32.
  EXPECT_EQ(product(MatmulPrecision::medium, kFloat), 512.0F);
  EXPECT_FLOAT_EQ(product(MatmulPrecision::highest, kFloat), 512.0F + 0x1p-3F) << "not for ever";
}

using MixedPrecisionOnGpu = KernelTest<float>;

TEST_F(MixedPrecisionOnGpu, ProductsOfBf16EqualTheCpus) {
  const auto rounded = [](const Tensor& x) {
    Tensor narrow = Tensor::empty(x.shape(), DType::bf16, x.device());
    ops::narrow(x, narrow);
    return narrow;
  };
  for (const auto [m, n, k] : {Sizes{1, 1, 1}, Sizes{3, 5, 7}, Sizes{64, 32, 128}}) {
    expect_same({numbers({k, m}, 1), numbers({k, n}, 2), numbers({m, n}, 3)}, [&](Tensors& t) {
      ops::gemm(rounded(t[0]), Trans::yes, rounded(t[1]), Trans::no, {.alpha = 0.5, .beta = 1.0},
                t[2]);
    });
    expect_same({numbers({m, k}, 1), numbers({n, k}, 2), numbers({n}, 3), garbage({m, n})},
                [&](Tensors& t) {
                  ops::linear(rounded(t[0]), rounded(t[1]), t[2], t[3], Activation::relu);
                });
  }
}

TYPED_TEST(GemmOnGpu, OfEmptyMatricesTouchesNothingElse) {
  for (const auto [m, n, k] : {Sizes{0, 3, 2}, Sizes{3, 0, 2}, Sizes{3, 2, 0}}) {
    for (const double beta : {0.0, 0.5}) {
      const Tensor c = beta == 0.0 ? this->garbage({m, n}) : this->numbers({m, n}, 3);
      this->expect_same(
          {this->numbers({m, k}, 1), this->numbers({k, n}, 2), c}, [beta](Tensors& t) {
            ops::gemm(t[0], Trans::no, t[1], Trans::no, {.alpha = 1.0, .beta = beta}, t[2]);
          });
    }
  }
}

TYPED_TEST(GemmOnGpu, LinearTakesAnXThatBeginsAnywhere) {
  const Tensor memory = this->numbers({8 * 16 + 1}, 1);
  for (const std::int64_t first : {0, 1}) {  // the second time there is a kernel for aligned ones
    this->expect_same(
        {memory, this->numbers({24, 16}, 2), this->numbers({24}, 3), this->garbage({8, 24})},
        [first](Tensors& t) {
          ops::linear(t[0].flat_view(first, {8, 16}), t[1], t[2], t[3]);
        },
        this->kTolerance);
  }
}

TYPED_TEST(GemmOnGpu, LinearEqualsTheCpuWithAndWithoutBias) {
  for (const auto [batch, out, in] : kProducts) {
    const Tensor x = this->numbers({batch, in}, 1);
    const Tensor w = this->numbers({out, in}, 2);
    const Tensor b = this->numbers({out}, 3);
    const Tensor y = this->garbage({batch, out});
    this->expect_same(
        {x, w, b, y}, [](Tensors& t) { ops::linear(t[0], t[1], t[2], t[3]); }, this->kTolerance);
    this->expect_same(
        {x, w, y}, [](Tensors& t) { ops::linear(t[0], t[1], Tensor(), t[2]); }, this->kTolerance);
    this->expect_same(
        {x, w, b, y}, [](Tensors& t) { ops::linear(t[0], t[1], t[2], t[3], Activation::relu); },
        this->kTolerance);
    this->expect_same(
        {x, w, y}, [](Tensors& t) { ops::linear(t[0], t[1], Tensor(), t[2], Activation::relu); },
        this->kTolerance);
    this->expect_same(
        {x, w, b, y, y},
        [](Tensors& t) { ops::linear(t[0], t[1], t[2], t[3], Activation::gelu, t[4]); },
        this->kTolerance);
    this->expect_same(
        {x, w, y, y},
        [](Tensors& t) { ops::linear(t[0], t[1], Tensor(), t[2], Activation::gelu, t[3]); },
        this->kTolerance);
  }
}

TYPED_TEST(GemmOnGpu, ANaNAmongTheWeightsPassesTheReLU) {
  const Tensor x = this->numbers({32, 64}, 1);
  const Tensor w = this->numbers({48, 64}, 2);
  w.template data<TypeParam>()[5] = static_cast<TypeParam>(std::nan(""));
  const Tensor b = this->numbers({48}, 3);
  this->expect_same({x, w, b, this->garbage({32, 48})},
                    [](Tensors& t) { ops::linear(t[0], t[1], t[2], t[3], Activation::relu); });
  this->expect_same({x, w, this->garbage({32, 48})},
                    [](Tensors& t) { ops::linear(t[0], t[1], Tensor(), t[2], Activation::relu); });
}

TYPED_TEST(GemmOnGpu, FloatProductsAreNotRoundedToTf32) {
  // 1 + 2^-20 needs 21 bits; TF32 keeps 11. Large enough for cuBLAS to take its tensor-core kernels
  // if it may; times the identity, every element is a sum with one term that is not 0.
  constexpr std::int64_t kSize = 256;
  const std::vector<TypeParam> a(kSize * kSize, TypeParam{1} + TypeParam(0x1p-20));
  std::vector<TypeParam> identity(kSize * kSize);
  for (std::size_t i = 0; i < kSize; ++i) {
    identity[i * (kSize + 1)] = TypeParam{1};
  }
  Tensor c = Tensor::empty({kSize, kSize}, this->kType, kGpu);
  ops::gemm(Tensor::from(a, {kSize, kSize}, kGpu), Trans::no,
            Tensor::from(identity, {kSize, kSize}, kGpu), Trans::no, {}, c);
  EXPECT_EQ(c.to_vector<TypeParam>(), a);
}

TYPED_TEST(GemmOnGpu, ColumnSumEqualsTheCpu) {
  const Shape shapes[] = {{0, 3}, {3, 0}, {1, 1}, {3, 1000}, {1000, 3}, {65537, 5}, {129, 257}};
  for (const Shape& shape : shapes) {
    for (const double beta : {0.0, 1.0}) {
      const Tensor sums = beta == 0.0 ? this->garbage({shape[1]}) : this->numbers({shape[1]}, 2);
      // The CPU adds up to 65537 numbers one by one: its own rounding is what the tolerance allows
      // for.
      this->expect_same(
          {this->numbers(shape, 1), sums},
          [beta](Tensors& t) { ops::column_sum(t[0], {.alpha = 0.5, .beta = beta}, t[1]); },
          100 * this->kTolerance);
    }
  }
}

}  // namespace
}  // namespace brigade
