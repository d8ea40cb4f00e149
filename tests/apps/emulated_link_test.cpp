// What an emulated link shows: blocking collectives hide nothing behind computation, overlapping
// ones most of their time.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "apps/training/model.h"
#include "apps/training/trainer.h"
#include "dist/comm/emulated_link_communicator.h"
#include "nn/data/synthetic.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "optim/sgd.h"
#include "tests/support/on_backward.h"
#include "tests/support/thread_world.h"

namespace brigade::apps {
namespace {

constexpr std::int64_t kWidth = 64;
constexpr std::size_t kLayers = 6;
constexpr std::size_t kLayerBytes = kWidth * kWidth * sizeof(float);

/// Passes its input on; its backward takes 4 ms. Sleeping stands for computing, so that a test
/// machine that is busy or small measures the same.
class SlowBackward final : public nn::Module {
 public:
  nn::Variable forward(const nn::Variable& x) override {
    return test::on_backward(
        x, [](const Tensor&) { std::this_thread::sleep_for(std::chrono::milliseconds(4)); });
  }
  std::string description() const override { return "SlowBackward"; }
};

/// Six layers whose gradients appear 4 ms apart and travel 3 ms each.
double hidden_fraction(dist::SyncMode mode) {
  double fraction = 0.0;
  test::thread_world(2, [&](dist::Communicator& plain) {
    const dist::LinkModel slow{.alpha_us = 0.0, .gigabytes_per_s = kLayerBytes / 3e6};
    dist::EmulatedLinkCommunicator comm(plain.split(0, plain.rank()), slow);
    const data::DataSplits data = data::make_synthetic({.in = kWidth, .out = kWidth}, 64);
    nn::Sequential model;
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      model.append(nn::Linear(kWidth, kWidth, {.bias = false}));
      model.append(std::make_unique<SlowBackward>());
    }
    const auto loss = make_loss("mse");
    dist::GradAverager data_parallel(model.parameters(), comm,
                                     {.mode = mode, .bucket_bytes = kLayerBytes});
    optim::SGD optimizer(data_parallel.parameters(), {.lr = 0.01});
    data::DistributedSampler sampler(64, {4, 1, comm.size(), comm.rank()}, 3, true);
    Trainer trainer(
        {model, *loss, optimizer, data_parallel, sampler, *data.train, kCpu, false, true, {}});
    for (std::int64_t step = 0; step < 8; ++step) {
      trainer.step(step);
    }
    const TimingSummary summary = summarize(trainer.history(), 2, comm);
    EXPECT_GE(summary.median.comm, kLayers * 3.0) << dist::to_string(mode);
    if (comm.rank() == 0) {
      fraction = summary.hidden_fraction;
    }
  });
  return fraction;
}

TEST(EmulatedLink, IsHiddenByOverlapAndNotByBlocking) {
  EXPECT_GT(hidden_fraction(dist::SyncMode::overlap), 0.5);
  EXPECT_EQ(hidden_fraction(dist::SyncMode::naive), 0.0);
}

}  // namespace
}  // namespace brigade::apps
