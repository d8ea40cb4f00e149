#include <limits>

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

TYPED_TEST(ElementwiseOnGpu, AddEqualsTheCpu) {
  for (const std::int64_t n : kSizes) {
    this->expect_same({this->numbers({n}, 1), this->numbers({n}, 2), this->garbage({n})},
                      [](Tensors& t) { ops::add(t[0], t[1], t[2]); });
  }
}

TYPED_TEST(ElementwiseOnGpu, UniformHasTheBitsOfTheCpu) {
  for (const std::int64_t n : kSizes) {
    for (const double low : {0.0, -0.125, -1.0 / 27.0}) {
      const UniformArgs args{.seed = 0x1234'5678'9abc'def0, .sequence = 7, .low = low, .high = 0.3};
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
                      [](Tensors& t) { ops::relu(t[0], t[1]); });
  }
}

TYPED_TEST(ElementwiseOnGpu, ReluLetsNanPass) {
  const std::vector<TypeParam> values{std::numeric_limits<TypeParam>::quiet_NaN(), TypeParam{-1},
                                      TypeParam{2}};
  this->expect_same({Tensor::from(values, {3}), this->garbage({3})},
                    [](Tensors& t) { ops::relu(t[0], t[1]); });
}

TYPED_TEST(ElementwiseOnGpu, ReluBackwardEqualsTheCpu) {
  for (const std::int64_t n : kSizes) {
    for (const double beta : {0.0, 1.0}) {
      const Tensor dx = beta == 0.0 ? this->garbage({n}) : this->numbers({n}, 3);
      this->expect_same({this->numbers({n}, 1), this->numbers({n}, 2), dx}, [beta](Tensors& t) {
        ops::relu_backward(t[0], t[1], {.alpha = 0.5, .beta = beta}, t[2]);
      });
    }
  }
}

}  // namespace
}  // namespace brigade
