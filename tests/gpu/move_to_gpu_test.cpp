#include "autograd/functions/loss.h"
#include "core/random.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "optim/sgd.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/tensors.h"

namespace brigade {
namespace {

class MoveToGpu : public GpuTest {};

/// The weights after one step on `device`.
std::vector<float> trained(Device device) {
  manual_seed(3);
  nn::Linear layer(4, 2);
  const nn::Linear copy = layer;
  copy.to(device);
  const Tensor x = test::numbers({3, 4}, 1).to(device);
  nn::mse_loss(layer(x), Tensor::zeros({3, 2}, DType::f32, device)).backward();
  const std::vector<autograd::Variable> parameters = layer.parameters();
  EXPECT_EQ(parameters[0].grad().device(), device);
  optim::SGD(parameters, {.lr = 0.1}).step();
  return autograd::values_of(parameters);
}

TEST_F(MoveToGpu, OfACopyTakesTheLayerAlong) {
  const std::vector<float> expected = trained(kCpu);
  const std::vector<float> got = trained(kGpu);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], 1e-5F);
  }
}

TEST_F(MoveToGpu, KeepsAnAccumulatedGradient) {
  const autograd::Variable w(test::f32({1, -3}, {2}), true);
  autograd::mse_loss(w, Tensor::zeros({2})).backward();
  w.move_to(kGpu);
  autograd::mse_loss(w, Tensor::zeros({2}, DType::f32, kGpu)).backward();
  EXPECT_EQ(test::values(w.grad()), (std::vector<float>{2, -6}));
}

}  // namespace
}  // namespace brigade
