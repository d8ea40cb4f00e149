// span_cost [DEPTH WIDTH BATCH ROUNDS]: what does it cost to record what a step does?
//
// A network trains (forward, backward, SGD, one thread), every other step with the spans recorded
// that --trace is made from (StepClock::set_recording). The clock itself runs in
// every step, as in train_mlp. Prints the medians of both kinds and of the rounds' ratios recorded
// / plain, with the quartiles of the latter (turns.h).
#include <cstdio>
#include <vector>

#include "apps/metrics/step_metrics.h"
#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "core/cpu/threads.h"
#include "core/ops.h"
#include "dist/comm/single_process.h"
#include "optim/sgd.h"
#include "tests/bench/run_measurement.h"
#include "tests/bench/turns.h"
#include "tests/support/small_model.h"

namespace brigade {
namespace {

class Training {
 public:
  Training(int depth, std::int64_t width, std::int64_t batch)
      : model_(
            test::make_mlp(std::vector<std::int64_t>(static_cast<std::size_t>(depth) + 1, width))),
        optimizer_(model_->parameters(), {.lr = 0.01}),
        x_(Tensor::empty({batch, width})),
        target_(Tensor::zeros({batch, width})) {
    ops::uniform({.low = -1.0, .high = 1.0}, x_);
  }

  void step(bool recorded) {
    clock_.set_recording(recorded);
    clock_.start();
    optimizer_.zero_grad();
    autograd::Variable loss;
    {
      const TraceScope scope("forward");
      loss = autograd::mse_loss(model_->forward(autograd::Variable(x_)), target_);
    }
    clock_.forward_done();
    {
      const TraceScope scope("backward");
      loss.backward();
    }
    clock_.backward_done();
    {
      const TraceScope scope("optimizer", Lane::optimizer);
      optimizer_.step();
    }
    last_ = clock_.finish();
  }

  std::size_t spans() const { return last_.scopes.size(); }

 private:
  std::unique_ptr<nn::Sequential> model_;
  optim::SGD optimizer_;
  Tensor x_;       // [batch, width]
  Tensor target_;  // [batch, width]
  dist::SingleProcessCommunicator comm_{kCpu};
  apps::StepClock clock_{kCpu, comm_};
  apps::StepSpans last_;
};

void measure(int depth, int width, int batch, int rounds) {
  set_cpu_threads(1);
  Training training(depth, width, batch);
  const bench::Turns turns = bench::take_turns(
      rounds, [&] { training.step(/*recorded=*/false); },
      [&] { training.step(/*recorded=*/true); });
  training.step(/*recorded=*/true);
  std::puts(bench::to_json(depth, width, batch, rounds, turns, "plain", "recorded").c_str());
  std::printf("%zu spans per step, %.0f ns each\n", training.spans(),
              1e6 * (turns.with_ms - turns.without_ms) / static_cast<double>(training.spans()));
}

}  // namespace
}  // namespace brigade

int main(int argc, char** argv) {
  return brigade::test::run_measurement(argc, argv, "span_cost DEPTH WIDTH BATCH ROUNDS",
                                        {40, 256, 32, 501}, [](const std::vector<int>& numbers) {
                                          brigade::measure(numbers[0], numbers[1], numbers[2],
                                                           numbers[3]);
                                        });
}
