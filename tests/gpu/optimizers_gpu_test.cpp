#include "tests/gpu/gpu_test.h"

namespace brigade {
namespace {

template <class T>
class OptimizersOnGpu : public KernelTest<T> {
 protected:
  static constexpr double kTolerance = 10 * KernelTest<T>::kTolerance;
  static Tensor zeros(std::int64_t n) { return Tensor::zeros({n}, KernelTest<T>::kType); }
};
TYPED_TEST_SUITE(OptimizersOnGpu, FloatTypes);

TYPED_TEST(OptimizersOnGpu, SgdEqualsTheCpu) {
  for (const std::int64_t n : kSizes) {
    this->expect_same({this->numbers({n}, 1), this->numbers({n}, 2)}, [](Tensors& t) {
      Tensor none;
      ops::sgd({.lr = 0.1, .weight_decay = 0.01}, t[0], t[1], none);
    });
  }
}

TYPED_TEST(OptimizersOnGpu, SgdTakesMemoryThatIsNotAlignedToSixteenBytes) {
  this->expect_same({this->numbers({1000}, 1), this->numbers({1000}, 2)}, [](Tensors& t) {
    Tensor none;
    Tensor w = t[1].flat_view(1, {999});
    ops::sgd({.lr = 0.1, .weight_decay = 0.01}, t[0].flat_view(1, {999}), w, none);
  });
}

TYPED_TEST(OptimizersOnGpu, SgdWithMomentumEqualsTheCpuOverThreeSteps) {
  for (const std::int64_t n : kSizes) {
    for (const bool nesterov : {false, true}) {
      this->expect_same(
          {this->numbers({n}, 1), this->numbers({n}, 2), this->zeros(n)},
          [nesterov](Tensors& t) {
            const SgdArgs args{
                .lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = nesterov};
            for (int step = 0; step < 3; ++step) {
              ops::sgd(args, t[0], t[1], t[2]);
            }
          },
          this->kTolerance);
    }
  }
}

TYPED_TEST(OptimizersOnGpu, AdamAndAdamWEqualTheCpuOverThreeSteps) {
  for (const std::int64_t n : kSizes) {
    for (const bool decoupled : {false, true}) {
      this->expect_same(
          {this->numbers({n}, 1), this->numbers({n}, 2), this->zeros(n), this->zeros(n)},
          [decoupled](Tensors& t) {
            AdamArgs args{.lr = 0.01, .weight_decay = 0.1, .decoupled = decoupled};
            for (args.step = 1; args.step <= 3; ++args.step) {
              ops::adam(args, t[0], t[1], t[2], t[3]);
            }
          },
          this->kTolerance);
    }
  }
}

TYPED_TEST(OptimizersOnGpu, ClippingEqualsTheCpu) {
  for (const std::int64_t n : kSizes) {
    for (const double max_norm : {0.5, 1e6}) {
      this->expect_same({this->numbers({n}, 1), this->numbers({n}, 2)}, [&](Tensors& t) {
        Tensor squares = Tensor::zeros({}, DType::f64, t[0].device());
        ops::add_squares(t[0], squares);
        ops::add_squares(t[1], squares);
        ops::clip(squares, max_norm, t[0]);
        ops::clip(squares, max_norm, t[1]);
      });
    }
  }
}

}  // namespace
}  // namespace brigade
