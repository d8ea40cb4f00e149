#include "apps/metrics/model_flop.h"

#include <algorithm>

#include "core/ops.h"
#include "core/runtime/context.h"

namespace brigade::apps {

double measure_gemm_gflops(Device device, DType factors) {
  constexpr int kTimes = 7;
  const std::int64_t side = device.is_cuda() ? 4096 : 768;
  double fastest_ms = 0.0;
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
    Stream& stream = compute_stream(device);
    for (int i = 0; i < kTimes; ++i) {
      const Event begin = stream.record(Timing::on);
      ops::gemm(a, ops::Trans::yes, a, ops::Trans::no, {}, c);
      const Event end = stream.record(Timing::on);
      end.synchronize();
      const double ms = elapsed_ms(begin, end);
      fastest_ms = i == 0 ? ms : std::min(fastest_ms, ms);
    }
  }
  Context::current().allocator(device)->trim();
  const auto n = static_cast<double>(side);
  return 2e-6 * n * n * n / fastest_ms;
}

double model_flop(const StepShape& shape) {
  const std::vector<std::int64_t>& widths = shape.network.widths;
  double flop = 0.0;
  for (std::size_t layer = 0; layer + 1 < widths.size(); ++layer) {
    const double products = layer == 0 ? 2.0 : 3.0;  // y, dW and, behind the first layer, dx
    flop += products * 2.0 * static_cast<double>(widths[layer]) *
            static_cast<double>(widths[layer + 1]);
  }
  return flop * static_cast<double>(shape.batch) * static_cast<double>(shape.accum);
}

double model_flop_utilisation(const StepShape& shape, double gemm_gflops, double ms) {
  return ms > 0.0 ? model_flop(shape) / (1e6 * gemm_gflops * ms) : 0.0;
}

}  // namespace brigade::apps
