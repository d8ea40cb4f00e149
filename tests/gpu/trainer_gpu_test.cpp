// The Trainer on a GPU: the losses are those of the CPU.
#include "apps/training/model.h"
#include "apps/training/trainer.h"
#include "dist/comm/single_process.h"
#include "nn/data/synthetic.h"
#include "optim/adam.h"
#include "tests/gpu/gpu_test.h"

namespace brigade::apps {
namespace {

class TrainerOnGpu : public GpuTest {
 protected:
  /// Of many more steps than the 64 of one gather. Every fourth has fewer samples.
  static std::vector<double> losses(Device device) {
    const data::DataSplits data = data::make_synthetic({.in = 5, .out = 3}, 40);
    const auto model = make_network({{5, 8, 3}, true}, 0, device);
    const auto loss = make_loss("mse");
    dist::SingleProcessCommunicator comm(device);
    dist::GradAverager data_parallel(model->parameters(), comm, {});
    optim::Adam optimizer(data_parallel.parameters(), {});
    data::DistributedSampler sampler(40, {12, 1, comm.size(), comm.rank()}, 3, true);
    Trainer trainer({.model = *model,
                     .loss = *loss,
                     .optimizer = optimizer,
                     .data_parallel = data_parallel,
                     .sampler = sampler,
                     .data = *data.train,
                     .device = device,
                     .prefetch = data::Prefetch::on});
    constexpr std::int64_t kSteps = 150;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      trainer.step(step);
    }
    return trainer.take_losses();
  }
};

TEST_F(TrainerOnGpu, LossesAreThoseOfTheCpu) {
  const std::vector<double> on_cpu = losses(kCpu);
  const std::vector<double> on_gpu = losses(kGpu);
  ASSERT_EQ(on_gpu.size(), on_cpu.size());
  for (std::size_t step = 0; step < on_cpu.size(); ++step) {
    EXPECT_NEAR(on_gpu[step], on_cpu[step], 1e-3 * on_cpu[step]) << "step " << step;
  }
}

}  // namespace
}  // namespace brigade::apps
