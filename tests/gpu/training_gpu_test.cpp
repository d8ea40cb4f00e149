#include <cmath>
#include <functional>
#include <memory>

#include "autograd/engine.h"
#include "autograd/functions/linear.h"
#include "autograd/functions/mse_loss.h"
#include "autograd/replay.h"
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
  ops::uniform({.seed = 9, .sequence = 1, .low = -1.0, .high = 1.0}, x);
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
    autograd::backward(loss(cpu.forward(Variable(make_batch())), make_labels()));
    autograd::backward(loss(gpu.forward(Variable(make_batch().to(kGpu))), make_labels().to(kGpu)));
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

TEST_F(TrainingOnGpu, AnOutputThatIsHeldMovesBeforeDwIsWrittenInItsPlace) {
  for (const bool in_backward : {false, true}) {
    Twins twins;
    optim::SGD optimizer(twins.gpu.parameters(), {.lr = 0.1});  // gives gradients their memory
    if (in_backward) {
      optimizer.update_in_backward();
    }
    const std::vector<Variable> parameters = twins.gpu.parameters();
    const Variable y = linear_relu(Variable(make_batch().to(kGpu)), parameters[0], parameters[1]);
    EXPECT_EQ(y.data().bytes(), parameters[0].grad_state()->grad.bytes());
    const std::vector<float> before = y.data().to_vector<float>();
    const Tensor target = Tensor::zeros(y.shape(), DType::f32, kGpu);
    autograd::backward(autograd::mse_loss(y, target));
    EXPECT_EQ(y.data().to_vector<float>(), before);
    EXPECT_NE(y.data().bytes(), parameters[0].grad_state()->grad.bytes());
  }
}

enum class Update { adam_in_the_graph, sgd_in_the_graph, sgd_in_backward, sgd_afterwards };

std::unique_ptr<optim::Optimizer> make_optimizer(const nn::Sequential& model, Update update) {
  if (update == Update::adam_in_the_graph) {
    return std::make_unique<optim::Adam>(model.parameters(), optim::Adam::Options{});
  }
  const double momentum = update == Update::sgd_in_the_graph ? 0.9 : 0.0;
  auto sgd = std::make_unique<optim::SGD>(model.parameters(),
                                          optim::SGD::Options{.lr = 0.1, .momentum = momentum});
  if (update == Update::sgd_in_backward) {
    sgd->update_in_backward();
  }
  return sgd;
}

/// Weights and losses of some steps, each on one of two sets of buffers by turns, as a prefetching
/// loader gives them; `replays`: how many were CUDA graphs.
auto train_on_gpu(bool captures, Update update, std::size_t& replays) {
  nn::Sequential model = make_mlp(kGpu);
  nn::Loss& loss = nn::cross_entropy;
  const auto optimizer = make_optimizer(model, update);
  autograd::Replay replay(model.parameters(), kGpu);
  const std::vector<Tensor> inputs{make_batch().to(kGpu), make_batch().to(kGpu)};
  const Tensor labels = make_labels().to(kGpu);
  std::vector<double> losses;
  for (std::size_t step = 0; step < 12; ++step) {
    const Tensor& x = inputs[step % inputs.size()];
    const auto forward = [&] { return loss(model.forward(Variable(x)), labels); };
    optimizer->zero_grad();
    constexpr std::size_t kOddOne = 8;  // between graphs, as a last batch that is smaller
    if (!captures || step == kOddOne) {
      const Variable value = forward();
      autograd::backward(value);
      optimizer->step();
      losses.push_back(value.data().item());
      continue;
    }
    const bool inside = optimizer->repeats();
    autograd::Replay::Work work{.forward = forward};
    if (inside) {
      work.update = [&] { optimizer->step(); };
    }
    const Event begin = compute_stream(kGpu).record(Timing::on);
    const autograd::Replay::Outcome outcome =
        replay.step({.inputs = x.bytes(), .targets = labels.bytes(), .samples = kBatch}, work);
    if (!inside) {
      optimizer->step();
    } else if (outcome.replayed) {
      optimizer->count_step();
    }
    losses.push_back(outcome.loss.item());
    // Also inside a graph, in every launch anew.
    compute_stream(kGpu).synchronize();
    EXPECT_GT(elapsed_ms(begin, outcome.forward_done), 0.0) << "step " << step;
    EXPECT_GT(elapsed_ms(outcome.forward_done, outcome.backward_done), 0.0) << "step " << step;
  }
  replays = replay.replays();
  return std::pair(autograd::values_of(model.parameters()), losses);
}

TEST_F(TrainingOnGpu, ACudaGraphEndsWithTheBitsOfSingleLaunches) {
  for (const Update update :
       {Update::adam_in_the_graph, Update::sgd_in_the_graph, Update::sgd_in_backward}) {
    SCOPED_TRACE(static_cast<int>(update));
    std::size_t replays = 0;
    const auto dynamic = train_on_gpu(false, update, replays);
    EXPECT_EQ(replays, 0U);
    EXPECT_EQ(train_on_gpu(true, update, replays), dynamic);
    EXPECT_GE(replays, 6U);
  }
}

TEST_F(TrainingOnGpu, ARecordingThatFailsLeavesNoGradientsBehind) {
  nn::Sequential model = make_mlp(kGpu);
  nn::Loss& loss = nn::cross_entropy;
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  autograd::Replay replay(model.parameters(), kGpu);
  const Tensor x = make_batch().to(kGpu);
  const Tensor labels = make_labels().to(kGpu);
  const auto forward = [&] { return loss(model.forward(Variable(x)), labels); };
  bool fails = false;
  const auto update = [&] { BRIGADE_CHECK(!fails, "no update"); };
  const auto step = [&] {
    optimizer.zero_grad();
    replay.step({.inputs = x.bytes(), .targets = labels.bytes(), .samples = kBatch},
                {forward, update});
  };
  step();
  const std::vector<float> expected = model.parameters().front().grad().to_vector<float>();
  fails = true;
  EXPECT_ERROR(step(), "no update");
  autograd::backward(forward());  // would be added to what is there
  EXPECT_EQ(model.parameters().front().grad().to_vector<float>(), expected);
}

TEST_F(TrainingOnGpu, UpdatesInBackwardAreThoseOfStepsAfterIt) {
  std::size_t replays = 0;
  const auto [in_backward, _] = train_on_gpu(false, Update::sgd_in_backward, replays);
  const auto [afterwards, __] = train_on_gpu(false, Update::sgd_afterwards, replays);
  EXPECT_LT(relative_distance(in_backward, afterwards), 1e-5);
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
      autograd::backward(loss(model.forward(Variable(x)), labels));
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
