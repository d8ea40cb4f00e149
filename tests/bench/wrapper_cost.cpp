// wrapper_cost [DEPTH WIDTH BATCH ROUNDS]: what does DataParallel cost a rank that has no peers?
//
// Two equal networks take turns, one wrapped in a DataParallel (overlap, one rank), one not, a step
// (forward, backward, SGD) each; who begins changes from round to round. Prints the medians of the
// two and of the rounds' ratios wrapped / plain, with the quartiles of the latter: of elapsed time,
// and of the process's processor time, which counts the communication thread as well and does not
// count other programs.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

#include "autograd/engine.h"
#include "autograd/functions/mse_loss.h"
#include "core/cpu/threads.h"
#include "core/ops.h"
#include "dist/data_parallel.h"
#include "dist/single_process.h"
#include "optim/sgd.h"
#include "tests/bench/positive_argument.h"
#include "tests/support/small_model.h"

namespace brigade {
namespace {

/// In ms.
struct StepTime {
  double elapsed = 0.0;
  double processor = 0.0;
};

double clock_ms(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

StepTime now() {
  return {clock_ms(CLOCK_MONOTONIC), clock_ms(CLOCK_PROCESS_CPUTIME_ID)};
}

class Network {
 public:
  Network(int depth, std::int64_t width, std::int64_t batch, dist::Communicator* comm)
      : model_(
            test::make_mlp(std::vector<std::int64_t>(static_cast<std::size_t>(depth) + 1, width))),
        x_(Tensor::empty({batch, width})),
        target_(Tensor::zeros({batch, width})) {
    ops::uniform({.low = -1.0, .high = 1.0}, x_);
    if (comm != nullptr) {
      wrapper_ = std::make_unique<dist::DataParallel>(model_->parameters(), *comm,
                                                      dist::DataParallelOptions{});
    }
    optimizer_ =
        std::make_unique<optim::SGD>(model_->parameters(), optim::SGD::Options{.lr = 0.01});
  }

  StepTime step() {
    const StepTime begin = now();
    optimizer_->zero_grad();
    autograd::backward(autograd::mse_loss(model_->forward(autograd::Variable(x_)), target_));
    optimizer_->step();
    const StepTime end = now();
    return {end.elapsed - begin.elapsed, end.processor - begin.processor};
  }

 private:
  std::unique_ptr<nn::Sequential> model_;
  std::unique_ptr<dist::DataParallel> wrapper_;  // null: without
  std::unique_ptr<optim::SGD> optimizer_;
  Tensor x_;
  Tensor target_;
};

double quantile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1) + 0.5)];
}

void measure(int depth, std::int64_t width, std::int64_t batch, int rounds) {
  set_cpu_threads(1);
  dist::SingleProcessCommunicator comm(kCpu);
  Network plain(depth, width, batch, nullptr);
  Network wrapped(depth, width, batch, &comm);
  std::vector<double> plain_ms;
  std::vector<double> wrapped_ms;
  std::vector<double> ratios;
  std::vector<double> processor_ratios;
  constexpr int kWarmUp = 3;
  for (int round = -kWarmUp; round < rounds; ++round) {
    const bool wrapped_first = round % 2 == 0;
    const StepTime first = (wrapped_first ? wrapped : plain).step();
    const StepTime second = (wrapped_first ? plain : wrapped).step();
    const StepTime with = wrapped_first ? first : second;
    const StepTime without = wrapped_first ? second : first;
    if (round >= 0) {
      wrapped_ms.push_back(with.elapsed);
      plain_ms.push_back(without.elapsed);
      ratios.push_back(with.elapsed / without.elapsed);
      processor_ratios.push_back(with.processor / without.processor);
    }
  }
  std::printf(
      "{\"depth\": %d, \"width\": %lld, \"batch\": %lld, \"rounds\": %d, \"plain_ms\": %.3f, "
      "\"wrapped_ms\": %.3f, \"ratio\": %.4f, \"ratio_p25\": %.4f, \"ratio_p75\": %.4f, "
      "\"processor_ratio\": %.4f, \"processor_ratio_p25\": %.4f, \"processor_ratio_p75\": %.4f}\n",
      depth, static_cast<long long>(width), static_cast<long long>(batch), rounds,
      quantile(plain_ms, 0.5), quantile(wrapped_ms, 0.5), quantile(ratios, 0.5),
      quantile(ratios, 0.25), quantile(ratios, 0.75), quantile(processor_ratios, 0.5),
      quantile(processor_ratios, 0.25), quantile(processor_ratios, 0.75));
}

}  // namespace
}  // namespace brigade

int main(int argc, char** argv) {
  const auto argument = [&](int index, int otherwise) {
    return brigade::test::positive_argument(argc, argv, index, otherwise,
                                            "wrapper_cost DEPTH WIDTH BATCH ROUNDS");
  };
  brigade::measure(argument(1, 8), argument(2, 1024), argument(3, 128), argument(4, 51));
}
