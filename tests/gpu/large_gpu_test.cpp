// Arrays that are longer than the largest grid: a kernel's threads take several turns.
#include <cstring>

#include "tests/gpu/gpu_test.h"

namespace brigade {
namespace {

class LargeOnGpu : public KernelTest<float> {
 protected:
  /// 4096 blocks of 256 threads (core/cuda/kernel.cuh) take 16 bytes each in a turn; this is one
  /// turn and a little more, which is no whole 16 bytes.
  static constexpr std::int64_t kLarge = std::int64_t{4096} * 256 * 4 + 4099;
};

TEST_F(LargeOnGpu, SgdEqualsTheCpu) {
  expect_same({numbers({kLarge}, 1), numbers({kLarge}, 2)}, [](Tensors& t) {
    Tensor none;
    ops::sgd({.lr = 0.1, .weight_decay = 0.01}, t[0], t[1], none);
  });
}

TEST_F(LargeOnGpu, ClippingEqualsTheCpu) {
  expect_same({numbers({kLarge}, 1)}, [](Tensors& t) {
    Tensor squares = Tensor::zeros({}, DType::f64, t[0].device());
    ops::add_squares(t[0], squares);
    ops::clip(squares, 1000.0, t[0]);  // of some 1183
  });
}

TEST_F(LargeOnGpu, AxpbyEqualsTheCpu) {
  expect_same({numbers({kLarge}, 1), numbers({kLarge}, 2)},
              [](Tensors& t) { ops::axpby(t[0], {.alpha = 3.0, .beta = -0.5}, t[1]); });
}

TEST_F(LargeOnGpu, UniformHasTheBitsOfTheCpu) {
  Tensor gpu = Tensor::empty({kLarge}, kType, kGpu);
  ops::uniform({.stream = {.seed = 1, .sequence = 3}, .low = -1.0, .high = 1.0}, gpu);
  EXPECT_TRUE(gpu.to_vector<float>() == numbers({kLarge}, 3).to_vector<float>());
}

TEST_F(LargeOnGpu, NarrowHasTheBitsOfTheCpu) {
  const Tensor x = numbers({kLarge}, 1);
  Tensor on_cpu = Tensor::empty(x.shape(), DType::bf16);
  Tensor on_gpu = Tensor::empty(x.shape(), DType::bf16, kGpu);
  ops::narrow(x, on_cpu);
  ops::narrow(x.to(kGpu), on_gpu);
  const Tensor fetched = on_gpu.to(kCpu);
  EXPECT_EQ(std::memcmp(fetched.bytes(), on_cpu.bytes(), on_cpu.nbytes()), 0);
}

TEST_F(LargeOnGpu, LossesEqualTheCpu) {
  expect_same(
      {numbers({kLarge}, 1), numbers({kLarge}, 2), garbage({})},
      [](Tensors& t) { ops::mse(t[0], t[1], t[2]); }, 1e-5);
  const Shape logits{kLarge / 3, 3};
  expect_same({numbers(logits, 1), labels(logits[0], 3),
               Tensor::from(std::vector<float>{0.75F}, {}), garbage(logits)},
              [rows = static_cast<double>(logits[0])](Tensors& t) {
                ops::cross_entropy_backward(t[0], t[1], t[2], {.alpha = rows}, t[3]);
              });
}

}  // namespace
}  // namespace brigade
