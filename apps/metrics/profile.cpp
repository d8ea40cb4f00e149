#include "apps/metrics/profile.h"

#include <algorithm>

#include "core/ops.h"
#include "core/runtime/context.h"

namespace brigade::apps {

namespace {

constexpr double kNumber = sizeof(float);

/// Seconds of the fastest of several runs, by the device's own clock.
template <class Work>
double fastest_seconds(Device device, Work work) {
  constexpr int kTimes = 7;
  Stream& stream = compute_stream(device);
  double fastest = 0.0;
  for (int i = 0; i < kTimes; ++i) {
    const Event begin = stream.record(Timing::on);
    work();
    const Event end = stream.record(Timing::on);
    end.synchronize();
    const double seconds = 1e-3 * elapsed_ms(begin, end);
    fastest = i == 0 ? seconds : std::min(fastest, seconds);
  }
  return fastest;
}

double matrix(std::int64_t rows, std::int64_t cols) {
  return static_cast<double>(rows) * static_cast<double>(cols);
}

}  // namespace

double measure_gemm_gflops(Device device, DType factors) {
  const std::int64_t side = device.is_cuda() ? 4096 : 768;
  double gflops = 0.0;
  {
    // Random: multiplying zeros takes less power, and a GPU then clocks higher than in training.
    Tensor a = Tensor::empty({side, side}, DType::f32, device);
    ops::uniform({.low = -1.0, .high = 1.0}, a);
    if (factors != DType::f32) {
      Tensor narrow = Tensor::empty({side, side}, factors, device);
      ops::narrow(a, narrow);
      a = narrow;
    }
    Tensor c = Tensor::empty({side, side}, DType::f32, device);
    const double seconds =
        fastest_seconds(device, [&] { ops::gemm(a, ops::Trans::yes, a, ops::Trans::no, {}, c); });
    gflops = 2e-9 * matrix(side, side) * static_cast<double>(side) / seconds;
  }
  Context::current().allocator(device)->trim();
  return gflops;
}

MachineLimits measure_limits(Device device, DType factors) {
  const std::int64_t length = device.is_cuda() ? std::int64_t{1} << 26 : std::int64_t{1} << 24;
  MachineLimits limits{.gflops = measure_gemm_gflops(device, factors)};
  {
    const Tensor g = Tensor::zeros({length}, DType::f32, device);
    Tensor w = Tensor::zeros({length}, DType::f32, device);
    Tensor no_velocity;
    const double seconds =
        fastest_seconds(device, [&] { ops::sgd({.lr = 0.5}, g, w, no_velocity); });
    limits.gigabytes_per_s = 3e-9 * kNumber * static_cast<double>(length) / seconds;
  }
  Context::current().allocator(device)->trim();
  return limits;
}

std::map<std::string, OperationWork> work_of_step(const StepShape& shape) {
  const std::vector<std::int64_t>& widths = shape.network.widths;
  const auto times = static_cast<double>(shape.accum);
  std::map<std::string, OperationWork> work;
  double weights = 0.0;
  for (std::size_t layer = 0; layer + 1 < widths.size(); ++layer) {
    const double x = matrix(shape.batch, widths[layer]);
    const double w = matrix(widths[layer + 1], widths[layer]);
    const double y = matrix(shape.batch, widths[layer + 1]);
    const double product = 2.0 * w * static_cast<double>(shape.batch);
    weights += w + (shape.network.bias ? static_cast<double>(widths[layer + 1]) : 0.0);

    OperationWork& forward = work["forward Linear"];
    forward.flop += times * product;
    forward.bytes += times * kNumber * (x + w + y);

    const bool last = layer + 2 == widths.size();
    OperationWork& backward = work[last ? "backward linear" : "backward linear_relu"];
    const double mask = last ? 0.0 : 3.0 * y;  // reads dy and y, writes dz
    const double dx = layer == 0 ? 0.0 : y + w + x;
    backward.flop += times * (layer == 0 ? 1.0 : 2.0) * product;
    // Writes dW; micro-batches after the step's first also read it, to add to it.
    backward.bytes += kNumber * (times * (mask + (y + x + w) + dx) + (times - 1.0) * w);
  }
  // Reads the gradient; reads and writes the weight and what is kept for it.
  const auto state = static_cast<double>(shape.optimizer_state);
  work["optimizer"].bytes = kNumber * weights * (3.0 + 2.0 * state);
  return work;
}

double model_flop(const StepShape& shape) {
  double flop = 0.0;
  for (const auto& [name, work] : work_of_step(shape)) {
    flop += work.flop;
  }
  return flop;
}

double model_flop_utilisation(const StepShape& shape, double gemm_gflops, double ms) {
  return ms > 0.0 ? model_flop(shape) / (1e6 * gemm_gflops * ms) : 0.0;
}

double floor_ms(const OperationWork& work, const MachineLimits& limits) {
  return std::max(work.flop / (1e6 * limits.gflops), work.bytes / (1e6 * limits.gigabytes_per_s));
}

std::vector<FigureRow> profile_rows(const std::vector<OperationTime>& operations,
                                    const StepShape& shape, const MachineLimits& limits) {
  double total = 0.0;
  for (const OperationTime& operation : operations) {
    total += operation.ms;
  }
  const std::map<std::string, OperationWork> works = work_of_step(shape);
  std::vector<FigureRow> rows;
  for (const OperationTime& operation : operations) {
    const auto found = works.find(operation.name);
    const bool counted = found != works.end();
    const OperationWork work = counted ? found->second : OperationWork();
    const double ms = operation.ms;
    const double floor = floor_ms(work, limits);
    const auto rate = [ms](double amount) {
      return known(amount > 0.0 && ms > 0.0, 1e-6 * amount / ms);
    };
    rows.push_back({operation.name,
                    {{"name", operation.name},
                     {"calls", operation.calls, "calls", "{:.4g}"},
                     {"ms", ms, "ms/step", "{:.3f}"},
                     {"flop", known(counted, work.flop)},
                     {"bytes", known(counted, work.bytes)},
                     {"floor_ms", known(counted, floor)},
                     {"", known(total > 0.0, ms / total), "%", "{:.1f}", kPercent},
                     {"", rate(work.flop), "GFLOP/s", "{:.1f}"},
                     {"", rate(work.bytes), "GB/s", "{:.1f}"},
                     {"", known(floor > 0.0, ms / floor), "x floor", "{:.2f}"}}});
  }
  return rows;
}

}  // namespace brigade::apps
