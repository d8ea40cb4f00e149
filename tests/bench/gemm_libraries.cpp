// gemm_libraries [DEPTH WIDTH BATCH ROUNDS]: how fast is each library at a layer's three products?
//
// One thread. forward = x Wᵀ, dW = dyᵀ x, dx = dy W, and W += dyᵀ x (--fused-update), each over
// DEPTH layers with buffers of their own, as in a step. The libraries take turns; prints GFLOP/s of
// the median round, by CPU time.
// OPENBLAS_CORETYPE=SkylakeX (Zen, ...) in the environment tries other kernels of OpenBLAS.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "core/cpu/blas_private.h"
#include "core/cpu/onednn_private.h"
#include "core/cpu/threads.h"
#include "core/ops.h"
#include "core/runtime/context.h"
#include "tests/bench/run_measurement.h"

namespace brigade {
namespace {

struct Layer {
  Tensor x, w, dw;  // [batch, width], [width, width], [width, width]
};

Tensor random(const Shape& shape) {
  Tensor values = Tensor::empty(shape);
  ops::uniform({.low = -0.5, .high = 0.5}, values);
  return values;
}

double cpu_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

enum class Product { forward, dw, dx, update };

/// The operands of one layer's product; dy has the shape of x, and dx is written over `scratch`.
GemmArgs<float> operands(Product product, const Layer& layer, const Tensor& dy,
                         const Tensor& scratch) {
  const std::int64_t batch = dy.shape()[0];
  const std::int64_t width = dy.shape()[1];
  const bool dw = product == Product::dw || product == Product::update;
  return {.transpose_a = dw,
          .transpose_b = product == Product::forward,
          .m = dw ? width : batch,
          .n = width,
          .k = dw ? batch : width,
          .a = product == Product::forward ? layer.x.data<float>() : dy.data<float>(),
          .b = dw ? layer.x.data<float>() : layer.w.data<float>(),
          .c = dw ? layer.dw.data<float>() : scratch.data<float>(),
          .scale = product == Product::update ? Scale{.alpha = -1e-6, .beta = 1.0} : Scale{}};
}

void measure(int depth, std::int64_t width, std::int64_t batch, int rounds) {
  constexpr Product kProducts[] = {Product::forward, Product::dw, Product::dx, Product::update};
  std::vector<Layer> layers;
  for (int i = 0; i < depth; ++i) {
    layers.push_back({random({batch, width}), random({width, width}), random({width, width})});
  }
  const Tensor dy = random({batch, width});
  const Tensor scratch = random({batch, width});
  Stream& stream = compute_stream(kCpu);

  std::vector<double> seconds[2][std::size(kProducts)];
  for (int round = -1; round < rounds; ++round) {
    for (const bool onednn : {false, true}) {
      // Two threads would keep oneDNN out; OpenBLAS itself is told to use one.
      set_cpu_threads(onednn ? 1 : 2);
      blas().set_num_threads(1);
      for (std::size_t product = 0; product < std::size(kProducts); ++product) {
        const double begin = cpu_seconds();
        for (const Layer& layer : layers) {
          const GemmArgs<float> args = operands(kProducts[product], layer, dy, scratch);
          onednn ? onednn::gemm(args) : CpuKernels::For<float>::gemm(stream, args);
        }
        if (round >= 0) {
          seconds[onednn ? 1 : 0][product].push_back(cpu_seconds() - begin);
        }
      }
    }
  }
  const double gflop =
      2e-9 * depth * static_cast<double>(batch) * static_cast<double>(width * width);
  for (const bool onednn : {false, true}) {
    std::printf("%-32s", onednn ? onednn::description().c_str() : blas().description.c_str());
    for (std::vector<double>& times : seconds[onednn ? 1 : 0]) {
      std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
      std::printf(" %6.1f", gflop / times[times.size() / 2]);
    }
    std::printf("   forward, dW, dx, W += dW; GFLOP/s\n");
  }
}

}  // namespace
}  // namespace brigade

int main(int argc, char** argv) {
  brigade::set_cpu_threads(1);
  if (brigade::onednn::description().empty()) {
    std::fprintf(stderr, "gemm_libraries: nothing to compare: no oneDNN, or no AVX2\n");
    return 1;
  }
  return brigade::test::run_measurement(argc, argv, "gemm_libraries DEPTH WIDTH BATCH ROUNDS",
                                        {8, 1024, 128, 25}, [](const std::vector<int>& numbers) {
                                          brigade::measure(numbers[0], numbers[1], numbers[2],
                                                           numbers[3]);
                                        });
}
