// Updates on a stream of their own, beside the backward pass and the next forward: nothing but
// events keeps them from the weights that a product still reads. On the CPU, where the rank's own
// thread multiplies, no missing wait could show.
#include <memory>
#include <optional>
#include <string>

#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "dist/comm/single_process.h"
#include "dist/ddp/grad_averager.h"
#include "dist/overlap/bucket_optimizer.h"
#include "dist/overlap/in_flight_updates.h"
#include "nn/loss.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/expect_error.h"
#include "tests/support/small_model.h"

namespace brigade::dist {
namespace {

class BucketOptimizerOnGpu : public GpuTest {
 protected:
  /// The weights after some steps of one rank, with a bucket and so an update per parameter. A
  /// product of these layers takes many times as long as the update that must not overtake it.
  template <class Optimizer>
  static std::vector<float> trained(const typename Optimizer::Options& options,
                                    std::optional<UpdateDeadline> deadline) {
    constexpr std::int64_t kWidth = 1024;
    constexpr std::int64_t kRows = 2048;
    const auto model = test::make_mlp({kWidth, kWidth, kWidth, kWidth}, 1, kGpu);
    SingleProcessCommunicator comm(kGpu);
    GradAverager data_parallel(model->parameters(), comm, {.bucket_bytes = 1024});
    Optimizer optimizer(data_parallel.parameters(), options);
    std::optional<InFlightUpdates> in_flight;
    if (deadline) {
      in_flight.emplace(data_parallel, calls_of(optimizer), *deadline);
    }
    const Tensor x = test::data_rows(0, kRows, kWidth, 2, kGpu);
    const Tensor target = test::data_rows(0, kRows, kWidth, 3, kGpu);
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      nn::mse_loss(model->forward(autograd::Variable(x)), target).backward();
      if (!deadline) {
        optimizer.step();
      }
    }
    return autograd::values_of(model->parameters());
  }

  template <class Optimizer>
  static void expect_the_bits_of_steps_after_backward(const typename Optimizer::Options& options) {
    const std::vector<float> afterwards = trained<Optimizer>(options, std::nullopt);
    EXPECT_EQ(trained<Optimizer>(options, UpdateDeadline::end_of_backward), afterwards);
    EXPECT_EQ(trained<Optimizer>(options, UpdateDeadline::next_read), afterwards)
        << "under the next forward";
  }
};

TEST_F(BucketOptimizerOnGpu, HasTheBitsOfStepsAfterBackwardWithSgd) {
  expect_the_bits_of_steps_after_backward<optim::SGD>({.lr = 10.0, .momentum = 0.9});
}

TEST_F(BucketOptimizerOnGpu, HasTheBitsOfStepsAfterBackwardWithAdam) {
  expect_the_bits_of_steps_after_backward<optim::Adam>({});
}

/// One collective of two sums, the second of which never starts.
class FailsHalfway final : public CommHook {
 public:
  std::string name() const override { return "fails halfway"; }
  Work all_reduce(std::size_t /*bucket*/, const Tensor& grads, std::string_view label,
                  Communicator& comm) override {
    return comm.enqueue(grads, label, [this, grads](Collectives& ranks) {
      ranks.sum(grads);
      BRIGADE_CHECK(!fails, "the hook fails");
    });
  }

  bool fails = true;
};

constexpr const char* kRefused =
    "data parallel: an earlier backward failed with an all-reduce in flight, so the ranks no "
    "longer execute the same collectives; end the job";

// On the CPU a collective fails on its stream's thread; here while it is enqueued.
TEST_F(BucketOptimizerOnGpu, ABackwardThatFailsInsideACollectiveRefusesTheNextOne) {
  const auto model = test::make_mlp({4, 4}, 1, kGpu);
  SingleProcessCommunicator comm(kGpu);
  const GradAverager data_parallel(model->parameters(), comm,
                                   {.hook = std::make_shared<FailsHalfway>()});
  const auto backward = [&] {
    const autograd::Variable x(test::data_rows(0, 2, 4, 2, kGpu));
    nn::mse_loss(model->forward(x), test::data_rows(0, 2, 4, 3, kGpu)).backward();
  };
  EXPECT_ERROR(backward(), "the hook fails");
  EXPECT_ERROR(backward(), kRefused);
}

}  // namespace
}  // namespace brigade::dist
