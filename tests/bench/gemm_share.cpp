// gemm_share [DEPTH WIDTH BATCH THREADS ROUNDS BYTES]: what does a training step consist of, and
// how near is it to the machine's limit?
//
// A step is forward, backward and SGD; no communication. Two measurements take turns:
//
//   step     as it is
//   GEMMs    of the same shapes and transpositions in the same order on as many different buffers,
//            so that the caches hold the same for one as for the other
//
// and memory: the least that the passes over the weights must move. The optimizer's reads a weight
// and its gradient and writes the weight, 12 bytes; with bf16 another pass reads it and writes it
// rounded, 6 bytes. Both at the bandwidth that one plain loop of the optimizer's kind reaches.
// And peak, before and after all turns: a large square product, as fast as this machine multiplies
// anything.
//
// BYTES: of the numbers that are multiplied, 4 for f32 or 2 for bf16.
//
// Two limits: the floor is GEMMs + memory, with products as fast as their library has them at these
// shapes; the roof has them at the peak rate as well, whatever their shape. Medians over the
// rounds, peak the best of them, in ms of CPU time (with several threads, the sum over them).
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "autograd/functions/loss.h"
#include "autograd/variable.h"
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
  int bytes = 4;  // of a factor: f32 or bf16

  /// `x` as it is multiplied.
  Tensor factor(const Tensor& x) const {
    if (bytes == 4) {
      return x;
    }
    Tensor rounded = Tensor::empty(x.shape(), DType::bf16);
    ops::narrow(x, rounded);
    return rounded;
  }
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

/// The 3 depth - 1 GEMMs of a step (the first layer has no dx), and the optimizer's pass over the
/// weights.
class Floor {
 public:
  explicit Floor(const Sizes& sizes) {
    inputs_.push_back(sizes.factor(random({sizes.batch, sizes.width})));
    for (int layer = 0; layer < sizes.depth; ++layer) {
      weights_.push_back(random({sizes.width, sizes.width}));
      multiplied_weights_.push_back(sizes.factor(weights_.back()));
      grads_.push_back(random({sizes.width, sizes.width}));
      outputs_.push_back(random({sizes.batch, sizes.width}));
      inputs_.push_back(sizes.factor(outputs_.back()));
    }
    for (std::size_t i = 0; i < deltas_.size(); ++i) {
      deltas_[i] = random({sizes.batch, sizes.width});
      multiplied_deltas_[i] = sizes.factor(deltas_[i]);
    }
  }

  void multiply() {
    const std::size_t depth = weights_.size();
    for (std::size_t i = 0; i < depth; ++i) {
      ops::gemm(inputs_[i], Trans::no, multiplied_weights_[i], Trans::yes, {}, outputs_[i]);
    }
    for (std::size_t i = depth; i-- > 0;) {
      const Tensor& dy = multiplied_deltas_[(i + 1) % 2];
      ops::gemm(dy, Trans::yes, inputs_[i], Trans::no, {}, grads_[i]);
      if (i > 0) {
        ops::gemm(dy, Trans::no, multiplied_weights_[i], Trans::no, {}, deltas_[i % 2]);
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
    const auto rows = static_cast<double>(inputs_.front().shape()[0]);
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

  // As they are multiplied: with f32 the same memory as those without the prefix.
  std::vector<Tensor> inputs_;  // [batch, width]: of every layer, and what the last gives
  std::vector<Tensor> multiplied_weights_;  // [width, width]
  std::array<Tensor, 2> multiplied_deltas_;
  std::vector<Tensor> weights_;   // [width, width]
  std::vector<Tensor> grads_;     // [width, width]
  std::vector<Tensor> outputs_;   // [batch, width], of every layer
  std::array<Tensor, 2> deltas_;  // [batch, width], by turns, as an allocator reuses them
};

class FullStep {
 public:
  explicit FullStep(const Sizes& sizes)
      : model_(test::make_mlp(
            std::vector<std::int64_t>(static_cast<std::size_t>(sizes.depth) + 1, sizes.width), 1,
            kCpu, sizes.bytes == 4 ? autograd::Precision::full : autograd::Precision::bf16)),
        optimizer_(model_->parameters(), {.lr = 0.01}),
        x_(Tensor::empty({sizes.batch, sizes.width})),
        target_(Tensor::zeros({sizes.batch, sizes.width})) {
    ops::uniform({.low = -1.0, .high = 1.0}, x_);
  }

  void run() {
    optimizer_.zero_grad();
    autograd::mse_loss(model_->forward(autograd::Variable(x_)), target_).backward();
    optimizer_.step();
  }

 private:
  std::unique_ptr<nn::Sequential> model_;
  optim::SGD optimizer_;
  Tensor x_;
  Tensor target_;
};

/// In GFLOP per second of CPU time, best of several.
double peak_gflops(const Sizes& sizes) {
  constexpr std::int64_t kSide = 768;
  constexpr int kTimes = 7;
  constexpr double kFlop = 2.0 * kSide * kSide * kSide;
  Tensor a = Tensor::empty({kSide, kSide});
  ops::uniform({.low = -1.0, .high = 1.0}, a);
  const Tensor factor = sizes.factor(a);
  Tensor c = Tensor::empty({kSide, kSide});
  double best = 0.0;
  for (int time = 0; time < kTimes; ++time) {
    const double ms =
        milliseconds([&] { ops::gemm(factor, Trans::yes, factor, Trans::no, {}, c); });
    best = std::max(best, 1e-6 * kFlop / ms);
  }
  return best;
}

/// In ms of CPU time.
struct Times {
  std::vector<double> gemms, step, moves;
};

Times take_turns(Floor& floor, const Sizes& sizes) {
  FullStep step(sizes);
  Times times;
  // Before each step other buffers pass through the caches.
  const std::vector<std::pair<std::vector<double>*, std::function<void()>>> turns{
      {&times.gemms, [&] { floor.multiply(); }},
      {&times.step, [&] { step.run(); }},
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
  return times;
}

void measure(const Sizes& sizes) {
  BRIGADE_CHECK(sizes.bytes == 4 || sizes.bytes == 2, "gemm_share: BYTES: expected 4 or 2, got {}",
                sizes.bytes);
  set_cpu_threads(sizes.threads);
  Floor floor(sizes);
  double peak = peak_gflops(sizes);
  const Times times = take_turns(floor, sizes);
  const double gemms = median(times.gemms);
  const double step = median(times.step);
  const double optimizer = median(times.moves);
  constexpr double kWithRounding = 18.0 / 12.0;  // bytes per weight
  const double moves = sizes.bytes == 4 ? optimizer : optimizer * kWithRounding;
  peak = std::max({peak, peak_gflops(sizes), 1e-6 * floor.flop() / gemms});
  const double floor_ms = gemms + moves;
  const double roof_ms = 1e-6 * floor.flop() / peak + moves;
  const nlohmann::ordered_json result{{"depth", sizes.depth},
                                      {"width", sizes.width},
                                      {"batch", sizes.batch},
                                      {"threads", sizes.threads},
                                      {"rounds", sizes.rounds},
                                      {"factor_bytes", sizes.bytes},
                                      {"peak_gflops", peak},
                                      {"memory_gigabytes_per_s", 1e-6 * floor.bytes() / optimizer},
                                      {"step_ms", step},
                                      {"gemm_ms", gemms},
                                      {"gemm_share", gemms / step},
                                      {"gemm_gflops", 1e-6 * floor.flop() / gemms},
                                      {"floor_ms", floor_ms},
                                      {"of_floor", step / floor_ms},
                                      {"roof_ms", roof_ms},
                                      {"of_roof", step / roof_ms}};
  std::printf("%s\n", result.dump().c_str());
}

}  // namespace
}  // namespace brigade

int main(int argc, char** argv) {
  return brigade::test::run_measurement(
      argc, argv, "gemm_share DEPTH WIDTH BATCH THREADS ROUNDS BYTES", {8, 1024, 128, 1, 25, 4},
      [](const std::vector<int>& numbers) {
        brigade::measure({.depth = numbers[0],
                          .width = numbers[1],
                          .batch = numbers[2],
                          .threads = numbers[3],
                          .rounds = numbers[4],
                          .bytes = numbers[5]});
      });
}
