// gemm_share [DEPTH WIDTH BATCH THREADS ROUNDS]: what does a training step consist of, and how near
// is it to the machine's limit?
//
// These take turns, but for peak, which is measured before and after them:
//
//   step     forward, backward, SGD; no communication
//   kernels  the same step replayed (autograd/replay.h): what it calls, without building its graph
//   fused    the step with its update in the product that computes dW (--fused-update)
//   GEMMs    of the same shapes and transpositions in the same order on as many different buffers,
//            so that what is in a cache for one is in it for the other; once with dW added to W,
//            which are the fused step's
//   memory   the least that the optimizer must move: reads a weight and its gradient, writes the
//            weight, 12 bytes per weight at the bandwidth that one plain loop over them reaches
//   peak     a large square product, as fast as this machine multiplies anything
//
// So a step is GEMMs, other kernels (kernels - GEMMs) and the framework itself (step - kernels).
// Two limits: the floor is GEMMs + memory, with products as fast as their library has them at these
// shapes; the roof has them at the peak rate as well, whatever their shape. Medians over the
// rounds, peak the best of them, in ms of CPU time, which with several threads is the sum over
// them.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <utility>
#include <vector>

#include "autograd/engine.h"
#include "autograd/functions/mse_loss.h"
#include "autograd/replay.h"
#include "core/context.h"
#include "core/cpu/threads.h"
#include "core/error.h"
#include "core/ops.h"
#include "optim/sgd.h"
#include "tests/bench/run_measurement.h"
#include "tests/support/small_model.h"

namespace brigade {
namespace {

using ops::Trans;

struct Sizes {
  int depth = 8;
  std::int64_t width = 1024;
  std::int64_t batch = 128;
  int threads = 1;
  int rounds = 25;
};

/// CPU time: what other programs take of the core does not count.
double milliseconds(const std::function<void()>& work) {
  const auto now = [] {
    timespec time = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  work();
  return now() - begin;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

/// The 3 depth - 1 GEMMs of a step (the first layer has no dx), and its unavoidable pass over the
/// weights.
class Floor {
 public:
  explicit Floor(const Sizes& sizes) {
    for (int layer = 0; layer < sizes.depth; ++layer) {
      weights_.push_back(random({sizes.width, sizes.width}));
      grads_.push_back(random({sizes.width, sizes.width}));
      activations_.push_back(random({sizes.batch, sizes.width}));
    }
    activations_.push_back(random({sizes.batch, sizes.width}));
    for (Tensor& delta : deltas_) {
      delta = random({sizes.batch, sizes.width});
    }
  }

  enum class Dw { written, added_to_w };

  void multiply(Dw dw) {
    const std::size_t depth = weights_.size();
    for (std::size_t i = 0; i < depth; ++i) {
      ops::gemm(activations_[i], Trans::no, weights_[i], Trans::yes, {}, activations_[i + 1]);
    }
    for (std::size_t i = depth; i-- > 0;) {
      const Tensor& dy = deltas_[(i + 1) % 2];
      if (dw == Dw::written) {
        ops::gemm(dy, Trans::yes, activations_[i], Trans::no, {}, grads_[i]);
      }
      if (i > 0) {
        ops::gemm(dy, Trans::no, weights_[i], Trans::no, {}, deltas_[i % 2]);
      }
      if (dw == Dw::added_to_w) {
        const Scale step{.alpha = kTiny, .beta = 1.0};
        ops::gemm(dy, Trans::yes, activations_[i], Trans::no, step, weights_[i]);
      }
    }
  }

  void move_weights() {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      ops::axpby(grads_[i], {.alpha = kTiny, .beta = 1.0}, weights_[i]);
    }
  }

  /// Of multiply().
  double flop() const {
    const auto rows = static_cast<double>(activations_.front().shape()[0]);
    const auto gemms = static_cast<double>(3 * weights_.size() - 1);
    return 2.0 * gemms * rows * static_cast<double>(weights_.front().numel());
  }
  /// Of move_weights().
  double bytes() const {
    return 3.0 * static_cast<double>(weights_.size() * weights_.front().nbytes());
  }

 private:
  static constexpr double kTiny = 1e-12;  // so that weights stay what they are

  static Tensor random(const Shape& shape) {
    Tensor values = Tensor::empty(shape);
    ops::uniform({.low = -0.03, .high = 0.03}, values);
    return values;
  }

  std::vector<Tensor> weights_;      // [width, width]
  std::vector<Tensor> grads_;        // [width, width]
  std::vector<Tensor> activations_;  // [batch, width]; input, then every layer's output
  std::array<Tensor, 2> deltas_;     // [batch, width], by turns, as an allocator reuses them
};

class FullStep {
 public:
  enum class Update { afterwards, in_backward };

  explicit FullStep(const Sizes& sizes, Update update = Update::afterwards)
      : model_(test::make_mlp(
            std::vector<std::int64_t>(static_cast<std::size_t>(sizes.depth) + 1, sizes.width))),
        optimizer_(model_->parameters(), {.lr = 0.01}),
        x_(Tensor::empty({sizes.batch, sizes.width})),
        target_(Tensor::zeros({sizes.batch, sizes.width})) {
    ops::uniform({.low = -1.0, .high = 1.0}, x_);
    if (update == Update::in_backward) {
      optimizer_.update_in_backward();
    }
  }

  void run() {
    optimizer_.zero_grad();
    autograd::backward(loss());
    optimizer_.step();
  }

  /// The same from the third time on without its graph.
  void replay() {
    optimizer_.zero_grad();
    replay_.step({.inputs = x_.bytes(), .targets = target_.bytes(), .samples = x_.shape()[0]},
                 {[this] { return loss(); }});
    optimizer_.step();
  }

  std::size_t replays() const { return replay_.replays(); }

 private:
  autograd::Variable loss() {
    return autograd::mse_loss(model_->forward(autograd::Variable(x_)), target_);
  }

  std::unique_ptr<nn::Sequential> model_;
  optim::SGD optimizer_;
  Tensor x_;
  Tensor target_;
  autograd::Replay replay_{model_->parameters(), kCpu};
};

/// In GFLOP per second of CPU time, best of several.
double peak_gflops() {
  constexpr std::int64_t kSide = 768;
  constexpr int kTimes = 7;
  constexpr double kFlop = 2.0 * kSide * kSide * kSide;
  Tensor a = Tensor::empty({kSide, kSide});
  ops::uniform({.low = -1.0, .high = 1.0}, a);
  Tensor c = Tensor::empty({kSide, kSide});
  double best = 0.0;
  for (int time = 0; time < kTimes; ++time) {
    const double ms = milliseconds([&] { ops::gemm(a, Trans::yes, a, Trans::no, {}, c); });
    best = std::max(best, 1e-6 * kFlop / ms);
  }
  return best;
}

/// In ms of CPU time.
struct Times {
  std::vector<double> gemms, step, kernels, fused_gemms, fused, moves;
};

Times take_turns(Floor& floor, const Sizes& sizes) {
  FullStep step(sizes);
  FullStep fused(sizes, FullStep::Update::in_backward);
  const auto multiply = [&] { floor.multiply(Floor::Dw::written); };
  Times times;
  // Before each of the steps other buffers pass through the caches.
  const std::vector<std::pair<std::vector<double>*, std::function<void()>>> turns{
      {&times.gemms, multiply},
      {&times.step, [&] { step.run(); }},
      {&times.gemms, multiply},
      {&times.kernels, [&] { step.replay(); }},
      {&times.fused_gemms, [&] { floor.multiply(Floor::Dw::added_to_w); }},
      {&times.fused, [&] { fused.run(); }},
      {&times.moves, [&] { floor.move_weights(); }}};
  constexpr int kWarmUp = 3;
  for (int round = -kWarmUp; round < sizes.rounds; ++round) {
    for (const auto& [samples, work] : turns) {
      const double ms = milliseconds(work);
      if (round >= 0) {
        samples->push_back(ms);
      }
    }
  }
  BRIGADE_CHECK(step.replays() >= static_cast<std::size_t>(sizes.rounds),
                "gemm_share: the step was not replayed");
  return times;
}

void measure(const Sizes& sizes) {
  set_cpu_threads(sizes.threads);
  Floor floor(sizes);
  double peak = peak_gflops();
  const Times times = take_turns(floor, sizes);
  const double gemms = median(times.gemms);
  const double step = median(times.step);
  const double kernels = median(times.kernels);
  const double moves = median(times.moves);
  const double fused = median(times.fused);
  const double rate = 1e-6 * floor.flop() / gemms;
  peak = std::max({peak, peak_gflops(), rate});
  const double floor_ms = gemms + moves;
  const double roof_ms = 1e-6 * floor.flop() / peak + moves;
  std::printf(
      "{\"depth\": %d, \"width\": %lld, \"batch\": %lld, \"threads\": %d, \"rounds\": %d, "
      "\"step_ms\": %.3f, \"kernels_ms\": %.3f, \"gemm_ms\": %.3f, \"gemm_share\": %.4f, "
      "\"other_share\": %.4f, \"framework_share\": %.4f, \"gemm_gflops\": %.1f, "
      "\"peak_gflops\": %.1f, \"memory_gbps\": %.1f, \"floor_ms\": %.3f, \"of_floor\": %.3f, "
      "\"roof_ms\": %.3f, \"of_roof\": %.3f, \"fused_ms\": %.3f, \"fused_gemm_share\": %.4f}\n",
      sizes.depth, static_cast<long long>(sizes.width), static_cast<long long>(sizes.batch),
      sizes.threads, sizes.rounds, step, kernels, gemms, gemms / step, (kernels - gemms) / step,
      (step - kernels) / step, rate, peak, 1e-6 * floor.bytes() / moves, floor_ms, step / floor_ms,
      roof_ms, step / roof_ms, fused, median(times.fused_gemms) / fused);
}

}  // namespace
}  // namespace brigade

int main(int argc, char** argv) {
  return brigade::test::run_measurement(argc, argv, "gemm_share DEPTH WIDTH BATCH THREADS ROUNDS",
                                        {8, 1024, 128, 1, 25}, [](const std::vector<int>& numbers) {
                                          brigade::measure({.depth = numbers[0],
                                                            .width = numbers[1],
                                                            .batch = numbers[2],
                                                            .threads = numbers[3],
                                                            .rounds = numbers[4]});
                                        });
}
