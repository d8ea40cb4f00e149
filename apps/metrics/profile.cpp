#include "apps/metrics/profile.h"

#include <fmt/format.h>

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
    limits.gbps = 3e-9 * kNumber * static_cast<double>(length) / seconds;
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
    const bool last = layer + 2 == widths.size();
    const double bits = last || !shape.masks_in_product ? 0.0 : y / 32.0;  // one per number
    forward.bytes += times * kNumber * (x + w + y + bits);

    OperationWork& backward = work[last ? "backward linear" : "backward linear_relu"];
    const double mask = last || shape.masks_in_product ? 0.0 : 3.0 * y;  // dy, y read, dz written
    const double dx = layer == 0 ? 0.0 : y + w + x * (shape.masks_in_product ? 33.0 / 32.0 : 1.0);
    backward.flop += times * (layer == 0 ? 1.0 : 2.0) * product;
    // dW is written, and after the first micro-batch of a step read as well, to be added to.
    const double added_to = (times - 1.0) * w;
    backward.bytes += kNumber * (times * (mask + (y + x + w) + dx) + added_to);
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
  return std::max(work.flop / (1e6 * limits.gflops), work.bytes / (1e6 * limits.gbps));
}

std::vector<std::string> profile_table(const std::vector<OperationTime>& operations,
                                       const StepShape& shape, const MachineLimits& limits) {
  double total = 0.0;
  for (const OperationTime& operation : operations) {
    total += operation.ms;
  }
  const std::map<std::string, OperationWork> works = work_of_step(shape);
  std::vector<std::string> lines{fmt::format("{:<24} {:>7} {:>9} {:>6} {:>9} {:>7} {:>7}",
                                             "operation", "calls", "ms/step", "%", "GFLOP/s",
                                             "GB/s", "x floor")};
  for (const OperationTime& operation : operations) {
    const auto rate = [&operation](double work) {
      return work > 0.0 && operation.ms > 0.0 ? fmt::format("{:.1f}", 1e-6 * work / operation.ms)
                                              : std::string("-");
    };
    const auto found = works.find(operation.name);
    const OperationWork work = found == works.end() ? OperationWork() : found->second;
    const double least = floor_ms(work, limits);
    lines.push_back(fmt::format(
        "{:<24} {:>7.4g} {:>9.3f} {:>6.1f} {:>9} {:>7} {:>7}", operation.name, operation.calls,
        operation.ms, total > 0.0 ? 100.0 * operation.ms / total : 0.0, rate(work.flop),
        rate(work.bytes), least > 0.0 ? fmt::format("{:.2f}", operation.ms / least) : "-"));
  }
  return lines;
}

}  // namespace brigade::apps
