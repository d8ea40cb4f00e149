#include <bit>
#include <cstring>
#include <limits>

#include "core/ops.h"
#include "tests/gpu/gpu_test.h"

namespace brigade {
namespace {

template <class T>
class ElementwiseOnGpu : public KernelTest<T> {};
TYPED_TEST_SUITE(ElementwiseOnGpu, FloatTypes);

TYPED_TEST(ElementwiseOnGpu, FillWritesEveryElement) {
  for (const std::int64_t n : kSizes) {
    this->expect_same({this->garbage({n})}, [](Tensors& t) { ops::fill(2.5, t[0]); });
  }
}

TYPED_TEST(ElementwiseOnGpu, AxpbyEqualsTheCpu) {
  for (const std::int64_t n : kSizes) {
    for (const double beta : {0.0, 1.0, -0.5}) {
      this->expect_same({this->numbers({n}, 1), this->numbers({n}, 2)}, [beta](Tensors& t) {
        ops::axpby(t[0], {.alpha = 3.0, .beta = beta}, t[1]);
      });
    }
  }
}

TYPED_TEST(ElementwiseOnGpu, AxpbyWithBetaZeroIgnoresTheDestination) {
  this->expect_same({this->numbers({1000}, 1), this->garbage({1000})},
                    [](Tensors& t) { ops::axpby(t[0], {.alpha = 3.0, .beta = 0.0}, t[1]); });
}

TYPED_TEST(ElementwiseOnGpu, UniformHasTheBitsOfTheCpu) {
  for (const std::int64_t n : kSizes) {
    for (const double low : {0.0, -0.125, -1.0 / 27.0}) {
      const UniformArgs args{
          .stream = {.seed = 0x1234'5678'9abc'def0, .sequence = 7}, .low = low, .high = 0.3};
      Tensor cpu = Tensor::empty({n}, this->kType);
      Tensor gpu = Tensor::empty({n}, this->kType, kGpu);
      ops::uniform(args, cpu);
      ops::uniform(args, gpu);
      EXPECT_EQ(cpu.to_vector<TypeParam>(), gpu.to_vector<TypeParam>())
          << n << " numbers from " << low;
    }
  }
}

TYPED_TEST(ElementwiseOnGpu, ReluEqualsTheCpu) {
  for (const std::int64_t n : kSizes) {
    this->expect_same({this->numbers({n}, 1), this->garbage({n})},
                      [](Tensors& t) { ops::unary(UnaryOp::relu, t[0], t[1]); });
  }
}

TYPED_TEST(ElementwiseOnGpu, ReluLetsNanPass) {
  const std::vector<TypeParam> values{std::numeric_limits<TypeParam>::quiet_NaN(), TypeParam{-1},
                                      TypeParam{2}};
  this->expect_same({Tensor::from(values, {3}), this->garbage({3})},
                    [](Tensors& t) { ops::unary(UnaryOp::relu, t[0], t[1]); });
}

TYPED_TEST(ElementwiseOnGpu, ReluBackwardEqualsTheCpu) {
  for (const std::int64_t n : kSizes) {
    for (const double beta : {0.0, 1.0}) {
      const Tensor dx = beta == 0.0 ? this->garbage({n}) : this->numbers({n}, 3);
      this->expect_same({this->numbers({n}, 1), this->numbers({n}, 2), dx}, [beta](Tensors& t) {
        ops::unary_backward(UnaryOp::relu, t[0], t[1], {.alpha = 0.5, .beta = beta}, t[2]);
        ops::unary_backward(UnaryOp::relu, t[0], t[1], {}, t[0]);
      });
    }
  }
}

TYPED_TEST(ElementwiseOnGpu, BiasBackwardEqualsTheCpu) {
  for (const std::int64_t rows : {0, 1, 7, 33, 300}) {
    for (const std::int64_t cols : {0, 1, 31, 33, 1000}) {
      Tensor dy = this->numbers({rows, cols}, 1);
      for (std::int64_t i = 0; i < dy.numel(); i += 101) {
        dy.data<TypeParam>()[i] = std::numeric_limits<TypeParam>::quiet_NaN();
      }
      this->expect_same(
          {dy, this->numbers({rows, cols}, 2), this->garbage({rows, cols}), this->garbage({cols}),
           this->garbage({cols})},
          [](Tensors& t) {
            ops::bias_backward(UnaryOp::relu, t[0], t[1], t[2], t[3]);
            ops::bias_backward(UnaryOp::gelu, t[0], t[1], t[0], t[4]);
          },
          static_cast<double>(rows + 1) * this->kTolerance);
    }
  }
}

/// Conversions between float and 16 bits.
class HalfOnGpu : public GpuTest {
 protected:
  /// Numbers of all sizes, with everything that is rounded, overflows or vanishes.
  static Tensor every_kind() {
    std::vector<float> values{0.0F,     -0.0F,     1.0F + 0x1p-11F, 1.0F + 0x3p-11F, 65519.0F,
                              65520.0F, 0x1p-25F,  0x3p-25F,        0x1p-14F,        -0x1p-149F,
                              3.4e38F,  -INFINITY, std::nanf("")};
    for (std::uint64_t bits = 0; bits < 0x7f800000U; bits += 40'009) {
      values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    }
    return Tensor::from(values, {std::ssize(values)});
  }
};

TEST_F(HalfOnGpu, ConversionsHaveTheBitsOfTheCpu) {
  const Tensor x = every_kind();
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Tensor on_cpu = Tensor::empty(x.shape(), dtype);
    Tensor on_gpu = Tensor::empty(x.shape(), dtype, kGpu);
    ops::narrow(x, on_cpu);
    ops::narrow(x.to(kGpu), on_gpu);
    const Tensor fetched = on_gpu.to(kCpu);
    EXPECT_EQ(std::memcmp(fetched.bytes(), on_cpu.bytes(), on_cpu.nbytes()), 0) << dtype;

    Tensor wide_cpu = Tensor::zeros(x.shape());
    Tensor wide_gpu = Tensor::zeros(x.shape(), DType::f32, kGpu);
    ops::widen(on_cpu, {.alpha = 1.0, .beta = 1.0}, wide_cpu);
    ops::widen(on_gpu, {.alpha = 1.0, .beta = 1.0}, wide_gpu);
    const std::vector<float> expected = wide_cpu.to_vector<float>();
    const std::vector<float> actual = wide_gpu.to_vector<float>();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_TRUE(expected[i] == actual[i] || (std::isnan(expected[i]) && std::isnan(actual[i])))
          << dtype << ", element " << i;
    }
  }
}

TEST_F(HalfOnGpu, BiasBackwardRoundsAsTheCpuDoes) {
  const auto numbers = [](std::uint32_t sequence) {
    Tensor x = Tensor::empty({33, 70});
    ops::uniform({.stream = {.seed = 1, .sequence = sequence}, .low = -1.0, .high = 1.0}, x);
    return x;
  };
  const Tensor dy = numbers(1);
  Tensor kept = Tensor::empty({33, 70}, DType::bf16);
  ops::narrow(numbers(2), kept);
  Tensor dz = Tensor::empty_like(kept);
  Tensor db = Tensor::empty({70});
  ops::bias_backward(UnaryOp::relu, dy, kept, dz, db);
  Tensor gpu_dz = Tensor::empty(kept.shape(), DType::bf16, kGpu);
  Tensor gpu_db = Tensor::empty({70}, DType::f32, kGpu);
  ops::bias_backward(UnaryOp::relu, dy.to(kGpu), kept.to(kGpu), gpu_dz, gpu_db);
  const Tensor fetched = gpu_dz.to(kCpu);
  EXPECT_EQ(std::memcmp(fetched.bytes(), dz.bytes(), dz.nbytes()), 0);
  const std::vector<float> sums = gpu_db.to_vector<float>();
  for (std::size_t col = 0; col < sums.size(); ++col) {
    EXPECT_NEAR(sums[col], db.data<float>()[col], 1e-5) << col;
  }
}

}  // namespace
}  // namespace brigade
