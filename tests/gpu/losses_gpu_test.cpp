#include "tests/gpu/gpu_test.h"

namespace brigade {
namespace {

const Shape kBatches[] = {{1, 1}, {1, 10}, {3, 7}, {128, 10}, {1000, 65}, {5, 1000}, {65537, 2}};

template <class T>
class LossesOnGpu : public KernelTest<T> {
 protected:
  static constexpr double kTolerance = 5 * KernelTest<T>::kTolerance;
  static Tensor scalar(double value) {
    return Tensor::from(std::vector<T>{static_cast<T>(value)}, {});
  }
};
TYPED_TEST_SUITE(LossesOnGpu, FloatTypes);

TYPED_TEST(LossesOnGpu, MseEqualsTheCpu) {
  for (const std::int64_t n : kSizes) {
    this->expect_same(
        {this->numbers({n}, 1), this->numbers({n}, 2), this->garbage({})},
        [](Tensors& t) { ops::mse(t[0], t[1], t[2]); }, this->kTolerance);
  }
}

TYPED_TEST(LossesOnGpu, MseBackwardEqualsTheCpu) {
  for (const std::int64_t n : kSizes) {
    for (const double beta : {0.0, 1.0}) {
      const Tensor dx = beta == 0.0 ? this->garbage({n}) : this->numbers({n}, 3);
      this->expect_same({this->numbers({n}, 1), this->numbers({n}, 2), this->scalar(0.75), dx},
                        [beta](Tensors& t) {
                          ops::mse_backward(t[0], t[1], t[2], {.alpha = 0.5, .beta = beta}, t[3]);
                        });
    }
  }
}

TYPED_TEST(LossesOnGpu, CrossEntropyEqualsTheCpu) {
  for (const Shape& shape : kBatches) {
    this->expect_same(
        {this->numbers(shape, 1), this->labels(shape[0], shape[1]), this->garbage(shape),
         this->garbage({})},
        [](Tensors& t) { ops::cross_entropy(t[0], t[1], t[2], t[3]); }, this->kTolerance);
  }
}

TYPED_TEST(LossesOnGpu, CrossEntropyOfLargeLogitsDoesNotOverflow) {
  const std::vector<TypeParam> logits{TypeParam{1000}, TypeParam{-1000}, TypeParam{0},
                                      TypeParam{5}};
  this->expect_same(
      {Tensor::from(logits, {2, 2}), this->labels(2, 2), this->garbage({2, 2}), this->garbage({})},
      [](Tensors& t) { ops::cross_entropy(t[0], t[1], t[2], t[3]); }, this->kTolerance);
}

TYPED_TEST(LossesOnGpu, CrossEntropyBackwardEqualsTheCpu) {
  for (const Shape& shape : kBatches) {
    for (const double beta : {0.0, 1.0}) {
      const Tensor dx = beta == 0.0 ? this->garbage(shape) : this->numbers(shape, 3);
      this->expect_same(
          {this->numbers(shape, 1), this->labels(shape[0], shape[1]), this->scalar(0.75), dx},
          [beta](Tensors& t) {
            ops::cross_entropy_backward(t[0], t[1], t[2], {.alpha = 0.5, .beta = beta}, t[3]);
          });
    }
  }
}

TYPED_TEST(LossesOnGpu, OneHotEqualsTheCpu) {
  for (const Shape& shape : kBatches) {
    this->expect_same({this->labels(shape[0], shape[1]), this->garbage(shape)},
                      [](Tensors& t) { ops::one_hot(t[0], t[1]); });
  }
}

TYPED_TEST(LossesOnGpu, LossOfNoRowsIsZero) {
  Tensor loss = this->garbage({}).to(kGpu);
  Tensor softmax = Tensor::empty({0, 10}, this->kType, kGpu);
  ops::cross_entropy(Tensor::empty({0, 10}, this->kType, kGpu),
                     Tensor::empty({0}, DType::i64, kGpu), softmax, loss);
  EXPECT_EQ(loss.item(), 0.0);
}

TYPED_TEST(LossesOnGpu, LossesHaveTheSameBitsEveryTime) {
  const Tensor x = this->numbers({1000, 65}, 1).to(kGpu);
  const Tensor target = this->numbers({1000, 65}, 2).to(kGpu);
  Tensor loss = this->garbage({}).to(kGpu);
  ops::mse(x, target, loss);
  const std::vector<TypeParam> first = loss.template to_vector<TypeParam>();
  for (int repetition = 0; repetition < 20; ++repetition) {
    ops::mse(x, target, loss);
    ASSERT_EQ(loss.template to_vector<TypeParam>(), first);
  }
}

TYPED_TEST(LossesOnGpu, LabelOutsideTheClassesMakesTheLossNan) {
  for (const std::int64_t label : {10, -1}) {
    const Tensor labels = Tensor::from(std::vector<std::int64_t>{0, label}, {2}, kGpu);
    Tensor softmax = Tensor::empty({2, 10}, this->kType, kGpu);
    Tensor loss = Tensor::empty({}, this->kType, kGpu);
    ops::cross_entropy(this->numbers({2, 10}, 1).to(kGpu), labels, softmax, loss);
    EXPECT_TRUE(std::isnan(loss.item())) << label;
    Tensor targets = Tensor::zeros({2, 3}, this->kType, kGpu);
    ops::one_hot(labels, targets);
    const auto values = targets.template to_vector<TypeParam>();
    EXPECT_EQ(values[0], TypeParam{1});
    EXPECT_TRUE(std::isnan(values[3]) && std::isnan(values[5])) << label;
  }
}

}  // namespace
}  // namespace brigade
