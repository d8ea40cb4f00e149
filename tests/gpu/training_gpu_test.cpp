#include <cmath>
#include <functional>
#include <memory>

#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "core/error.h"
#include "core/random.h"
#include "core/runtime/context.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/relu.h"
#include "nn/sequential.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/expect_error.h"

namespace brigade {
namespace {

using autograd::Variable;

using TrainingOnGpu = GpuTest;

constexpr std::int64_t kBatch = 33;
constexpr std::int64_t kIn = 70;
constexpr std::int64_t kClasses = 10;

nn::Sequential make_mlp(Device device) {
  manual_seed(5);
  nn::Sequential model;
  model.append(nn::Linear(kIn, 129));
  model.append(nn::ReLU());
  model.append(nn::Linear(129, 65));
  model.append(nn::ReLU());
  model.append(nn::Linear(65, kClasses));
  model.to(device);
  return model;
}

Tensor make_batch() {
  Tensor x = Tensor::empty({kBatch, kIn});
  ops::uniform({.stream = {.seed = 9, .sequence = 1}, .low = -1.0, .high = 1.0}, x);
  return x;
}

Tensor make_labels() {
  std::vector<std::int64_t> labels(kBatch);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<std::int64_t>(i * 3 % kClasses);
  }
  return Tensor::from(labels, {kBatch});
}

/// |a - b| / |b|
double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double distance = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    distance += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(distance / size);
}

/// One model on the CPU and its twin on the GPU.
struct Twins {
  nn::Sequential cpu = make_mlp(kCpu);
  nn::Sequential gpu = make_mlp(kGpu);

  void backward(nn::Loss& loss) {
    loss(cpu.forward(Variable(make_batch())), make_labels()).backward();
    loss(gpu.forward(Variable(make_batch().to(kGpu))), make_labels().to(kGpu)).backward();
  }
};

TEST_F(TrainingOnGpu, ParametersStartWithTheBitsOfTheCpu) {
  const Twins twins;
  const std::vector<Variable> cpu = twins.cpu.parameters();
  const std::vector<Variable> gpu = twins.gpu.parameters();
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    EXPECT_EQ(cpu[i].data().to_vector<float>(), gpu[i].data().to_vector<float>()) << cpu[i].name();
  }
}

TEST_F(TrainingOnGpu, GradientsOfAnMlpEqualTheCpu) {
  for (nn::Loss* loss :
       {static_cast<nn::Loss*>(nn::mse_loss), static_cast<nn::Loss*>(nn::cross_entropy)}) {
    Twins twins;
    twins.backward(*loss);
    const std::vector<Variable> cpu = twins.cpu.parameters();
    const std::vector<Variable> gpu = twins.gpu.parameters();
    for (std::size_t i = 0; i < cpu.size(); ++i) {
      EXPECT_LT(
          relative_distance(gpu[i].grad().to_vector<float>(), cpu[i].grad().to_vector<float>()),
          1e-5)
          << cpu[i].name();
    }
  }
}

TEST_F(TrainingOnGpu, WeightsAfterTwentyStepsEqualTheCpu) {
  Twins twins;
  nn::Loss& loss = nn::cross_entropy;
  optim::SGD on_cpu(twins.cpu.parameters(), {.lr = 0.1, .momentum = 0.9});
  optim::SGD on_gpu(twins.gpu.parameters(), {.lr = 0.1, .momentum = 0.9});
  for (int step = 0; step < 20; ++step) {
    on_cpu.zero_grad();
    on_gpu.zero_grad();
    twins.backward(loss);
    on_cpu.step();
    on_gpu.step();
  }
  const std::vector<Variable> cpu = twins.cpu.parameters();
  const std::vector<Variable> gpu = twins.gpu.parameters();
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    EXPECT_LT(relative_distance(gpu[i].data().to_vector<float>(), cpu[i].data().to_vector<float>()),
              1e-4)
        << cpu[i].name();
  }
}

TEST_F(TrainingOnGpu, ASteadyStepAllocatesNothing) {
  nn::Sequential model = make_mlp(kGpu);
  nn::Loss& loss = nn::cross_entropy;
  optim::Adam optimizer(model.parameters(), {});
  const Tensor x = make_batch().to(kGpu);
  const Tensor labels = make_labels().to(kGpu);
  const auto train = [&](int steps) {
    for (int step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      loss(model.forward(Variable(x)), labels).backward();
      optimizer.step();
    }
  };
  train(3);
  const std::uint64_t before = Context::current().allocator(kGpu)->stats().system_allocations;
  train(20);
  EXPECT_EQ(Context::current().allocator(kGpu)->stats().system_allocations, before);
}

}  // namespace
}  // namespace brigade
