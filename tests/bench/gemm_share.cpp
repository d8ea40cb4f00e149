// gemm_share [DEPTH WIDTH BATCH THREADS ROUNDS]: what does a training step consist of, and how near
// is it to the machine's limit?
//
// A step is forward, backward and SGD; no communication. There are two: with the update in the
// product that computes dW, as train_mlp makes it on one rank ("fused"), and with one that is a
// pass of its own ("unfused", --fused-update off). Of each these take turns:
//
//   step     as it is
//   kernels  the same step replayed (autograd/replay.h): what it calls, without building its graph
//   GEMMs    of the same shapes and transpositions in the same order on as many different buffers,
//            so that what is in a cache for one is in it for the other; a layer's output lies in
//            its gradient's memory where it does so in the step
//
// and, for both, memory: the least that an optimizer's pass must move. It reads a weight and its
// gradient and writes the weight, 12 bytes per weight at the bandwidth that one plain loop over
// them reaches. And peak, before and after all turns: a large square product, as fast as this
// machine multiplies anything.
//
// So a step is GEMMs, other kernels (kernels - GEMMs) and the framework itself (step - kernels).
// Two limits: the floor is GEMMs, unfused + memory, with products as fast as their library has them
// at these shapes; the roof has them at the peak rate as well, whatever their shape. Medians over
// the rounds, peak the best of them, in ms of CPU time, which with several threads is the sum over
// them.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "autograd/engine.h"
#include "autograd/functions/mse_loss.h"
#include "autograd/replay.h"
#include "core/cpu/threads.h"
#include "core/error.h"
#include "core/ops.h"
#include "core/runtime/context.h"
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
  enum class Dw { written, added_to_w };

  explicit Floor(const Sizes& sizes) : x_(random({sizes.batch, sizes.width})) {
    for (int layer = 0; layer < sizes.depth; ++layer) {
      weights_.push_back(random({sizes.width, sizes.width}));
      grads_.push_back(random({sizes.width, sizes.width}));
      outputs_.push_back(random({sizes.batch, sizes.width}));
      // As in the step: a layer's output lies in its gradient, if it fits and dW is written there.
      in_grads_.push_back(sizes.batch <= sizes.width
                              ? grads_.back().flat_view(0, {sizes.batch, sizes.width})
                              : outputs_.back());
    }
    for (Tensor& delta : deltas_) {
      delta = random({sizes.batch, sizes.width});
    }
  }

  void multiply(Dw dw) {
    std::vector<Tensor>& outputs = dw == Dw::written ? in_grads_ : outputs_;
    const auto input = [&](std::size_t i) -> const Tensor& { return i > 0 ? outputs[i - 1] : x_; };
    const std::size_t depth = weights_.size();
    for (std::size_t i = 0; i < depth; ++i) {
      ops::gemm(input(i), Trans::no, weights_[i], Trans::yes, {}, outputs[i]);
    }
    for (std::size_t i = depth; i-- > 0;) {
      const Tensor& dy = deltas_[(i + 1) % 2];
      if (dw == Dw::written) {
        ops::gemm(dy, Trans::yes, input(i), Trans::no, {}, grads_[i]);
      }
      if (i > 0) {
        ops::gemm(dy, Trans::no, weights_[i], Trans::no, {}, deltas_[i % 2]);
      }
      if (dw == Dw::added_to_w) {
        const Scale step{.alpha = kTiny, .beta = 1.0};
        ops::gemm(dy, Trans::yes, input(i), Trans::no, step, weights_[i]);
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
    const auto rows = static_cast<double>(x_.shape()[0]);
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

  Tensor x_;                      // [batch, width]
  std::vector<Tensor> weights_;   // [width, width]
  std::vector<Tensor> grads_;     // [width, width]
  std::vector<Tensor> outputs_;   // [batch, width], of every layer
  std::vector<Tensor> in_grads_;  // likewise
  std::array<Tensor, 2> deltas_;  // [batch, width], by turns, as an allocator reuses them
};

class FullStep {
 public:
  enum class Update { afterwards, in_backward };

  FullStep(const Sizes& sizes, Update update)
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
  struct Step {
    std::vector<double> gemms, step, kernels;
  };
  Step fused, unfused;
  std::vector<double> moves;
};

Times take_turns(Floor& floor, const Sizes& sizes) {
  FullStep fused(sizes, FullStep::Update::in_backward);
  FullStep unfused(sizes, FullStep::Update::afterwards);
  const auto added = [&] { floor.multiply(Floor::Dw::added_to_w); };
  const auto written = [&] { floor.multiply(Floor::Dw::written); };
  Times times;
  // Before each of the steps other buffers pass through the caches.
  const std::vector<std::pair<std::vector<double>*, std::function<void()>>> turns{
      {&times.unfused.gemms, written},
      {&times.unfused.step, [&] { unfused.run(); }},
      {&times.unfused.gemms, written},
      {&times.unfused.kernels, [&] { unfused.replay(); }},
      {&times.fused.gemms, added},
      {&times.fused.step, [&] { fused.run(); }},
      {&times.fused.gemms, added},
      {&times.fused.kernels, [&] { fused.replay(); }},
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
  for (const FullStep* step : {&fused, &unfused}) {
    BRIGADE_CHECK(step->replays() >= static_cast<std::size_t>(sizes.rounds),
                  "gemm_share: the step was not replayed");
  }
  return times;
}

/// `flop`: of the products; `moves`: the pass over the weights that they leave to do, in ms.
nlohmann::ordered_json shares(const Times::Step& times, double flop, double peak, double moves) {
  const double gemms = median(times.gemms);
  const double step = median(times.step);
  const double kernels = median(times.kernels);
  const double floor_ms = gemms + moves;
  const double roof_ms = 1e-6 * flop / peak + moves;
  return {{"step_ms", step},
          {"kernels_ms", kernels},
          {"gemm_ms", gemms},
          {"gemm_share", gemms / step},
          {"other_share", (kernels - gemms) / step},
          {"framework_share", (step - kernels) / step},
          {"gemm_gflops", 1e-6 * flop / gemms},
          {"floor_ms", floor_ms},
          {"of_floor", step / floor_ms},
          {"roof_ms", roof_ms},
          {"of_roof", step / roof_ms}};
}

void measure(const Sizes& sizes) {
  set_cpu_threads(sizes.threads);
  Floor floor(sizes);
  double peak = peak_gflops();
  const Times times = take_turns(floor, sizes);
  const double moves = median(times.moves);
  peak = std::max({peak, peak_gflops(), 1e-6 * floor.flop() / median(times.fused.gemms),
                   1e-6 * floor.flop() / median(times.unfused.gemms)});
  const nlohmann::ordered_json result{
      {"depth", sizes.depth},
      {"width", sizes.width},
      {"batch", sizes.batch},
      {"threads", sizes.threads},
      {"rounds", sizes.rounds},
      {"peak_gflops", peak},
      {"memory_gbps", 1e-6 * floor.bytes() / moves},
      {"fused", shares(times.fused, floor.flop(), peak, 0.0)},
      {"unfused", shares(times.unfused, floor.flop(), peak, moves)}};
  std::printf("%s\n", result.dump().c_str());
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
