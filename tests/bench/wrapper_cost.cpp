// wrapper_cost [DEPTH WIDTH BATCH ROUNDS]: what does DataParallel cost a rank that has no peers?
//
// Two equal networks take turns, one wrapped in a DataParallel (overlap, one rank), one not, a step
// (forward, backward, SGD) each. Prints the medians of the two and of the rounds' ratios wrapped /
// plain, with the quartiles of the latter (turns.h). Processor time counts the communication thread
// as well.
#include <cstdio>
#include <memory>
#include <vector>

#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "core/cpu/threads.h"
#include "core/ops.h"
#include "dist/comm/single_process.h"
#include "dist/ddp/grad_averager.h"
#include "optim/sgd.h"
#include "tests/bench/run_measurement.h"
#include "tests/bench/turns.h"
#include "tests/support/small_model.h"

namespace brigade {
namespace {

class Network {
 public:
  Network(int depth, std::int64_t width, std::int64_t batch, dist::Communicator* comm)
      : model_(
            test::make_mlp(std::vector<std::int64_t>(static_cast<std::size_t>(depth) + 1, width))),
        x_(Tensor::empty({batch, width})),
        target_(Tensor::zeros({batch, width})) {
    ops::uniform({.low = -1.0, .high = 1.0}, x_);
    if (comm != nullptr) {
      wrapper_ = std::make_unique<dist::GradAverager>(model_->parameters(), *comm,
                                                      dist::DataParallelOptions{});
    }
    optimizer_ =
        std::make_unique<optim::SGD>(model_->parameters(), optim::SGD::Options{.lr = 0.01});
  }

  void step() {
    optimizer_->zero_grad();
    autograd::mse_loss(model_->forward(autograd::Variable(x_)), target_).backward();
    optimizer_->step();
  }

 private:
  std::unique_ptr<nn::Sequential> model_;
  std::unique_ptr<dist::GradAverager> wrapper_;  // null: without
  std::unique_ptr<optim::SGD> optimizer_;
  Tensor x_;
  Tensor target_;
};

void measure(int depth, int width, int batch, int rounds) {
  set_cpu_threads(1);
  dist::SingleProcessCommunicator comm(kCpu);
  Network plain(depth, width, batch, nullptr);
  Network wrapped(depth, width, batch, &comm);
  const bench::Turns turns = bench::take_turns(
      rounds, [&] { plain.step(); }, [&] { wrapped.step(); });
  std::puts(bench::to_json(depth, width, batch, rounds, turns, "plain", "wrapped").c_str());
}

}  // namespace
}  // namespace brigade

int main(int argc, char** argv) {
  return brigade::test::run_measurement(argc, argv, "wrapper_cost DEPTH WIDTH BATCH ROUNDS",
                                        {8, 1024, 128, 51}, [](const std::vector<int>& numbers) {
                                          brigade::measure(numbers[0], numbers[1], numbers[2],
                                                           numbers[3]);
                                        });
}
