// gemm_libraries [DEPTH WIDTH BATCH ROUNDS]: how fast is each library at a layer's three products?
//
// One thread. forward = x Wᵀ, dW = dyᵀ x, dx = dy W, and dW += dyᵀ x of a second micro-batch, each
// over DEPTH layers with buffers of their own, as in a step. OpenBLAS, oneDNN and, where this CPU
// has a unit for it, oneDNN with bf16 factors take turns; prints GFLOP/s of the median round, by
// CPU time.
// OPENBLAS_CORETYPE=SkylakeX (Zen, ...) in the environment tries other kernels of OpenBLAS.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "core/cpu/blas_private.h"
#include "core/cpu/onednn_private.h"
#include "core/cpu/threads.h"
#include "core/ops.h"
#include "core/runtime/context.h"
#include "tests/bench/run_measurement.h"

namespace brigade {
namespace {

/// A layer's numbers as F.
template <class F>
struct Layer {
  Tensor x, w, dy;  // [batch, width], [width, width], [batch, width]
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

Tensor rounded(const Tensor& x) {
  Tensor result = Tensor::empty(x.shape(), DType::bf16);
  ops::narrow(x, result);
  return result;
}

enum class Product { forward, dw, dx, accumulate };
constexpr Product kProducts[] = {Product::forward, Product::dw, Product::dx, Product::accumulate};

template <class F>
GemmArgs<float, F> operands(Product product, const Layer<F>& layer, const Tensor& dw,
                            const Tensor& dx) {
  const std::int64_t batch = layer.x.shape()[0];
  const std::int64_t width = layer.x.shape()[1];
  const bool of_weight = product == Product::dw || product == Product::accumulate;
  const bool forward = product == Product::forward;
  return {.transpose_a = of_weight,
          .transpose_b = forward,
          .m = of_weight ? width : batch,
          .n = width,
          .k = of_weight ? batch : width,
          .a = (forward ? layer.x : layer.dy).template data<F>(),
          .b = (of_weight ? layer.x : layer.w).template data<F>(),
          .c = (of_weight ? dw : dx).data<float>(),
          .scale = product == Product::accumulate ? Scale{.alpha = 1.0, .beta = 1.0} : Scale{}};
}

/// One way to compute a layer's product.
struct Way {
  std::string name;
  int threads;  // two would keep oneDNN out; OpenBLAS itself is told to use one
  std::function<void(Product, std::size_t layer)> multiply;
  std::vector<double> seconds[std::size(kProducts)] = {};
};

void measure(int depth, std::int64_t width, std::int64_t batch, int rounds) {
  std::vector<Layer<float>> layers;
  std::vector<Layer<BFloat16>> rounded_layers;
  std::vector<Tensor> dw;
  for (int i = 0; i < depth; ++i) {
    const Layer<float>& layer = layers.emplace_back(
        Layer<float>{random({batch, width}), random({width, width}), random({batch, width})});
    rounded_layers.push_back({rounded(layer.x), rounded(layer.w), rounded(layer.dy)});
    dw.push_back(random({width, width}));
  }
  const Tensor dx = random({batch, width});
  Stream& stream = compute_stream(kCpu);

  std::vector<Way> ways{{blas().description, 2,
                         [&](Product product, std::size_t i) {
                           CpuKernels::For<float>::gemm(stream,
                                                        operands(product, layers[i], dw[i], dx));
                         }},
                        {onednn::description(), 1, [&](Product product, std::size_t i) {
                           onednn::gemm(operands(product, layers[i], dw[i], dx));
                         }}};
  if (!onednn::bf16_unit().empty()) {
    ways.push_back(
        {fmt::format("bf16 by {}", onednn::bf16_unit()), 1, [&](Product product, std::size_t i) {
           onednn::gemm_bf16(operands(product, rounded_layers[i], dw[i], dx));
         }});
  }
  for (int round = -1; round < rounds; ++round) {
    for (Way& way : ways) {
      set_cpu_threads(way.threads);
      blas().set_num_threads(1);
      for (std::size_t product = 0; product < std::size(kProducts); ++product) {
        const double begin = cpu_seconds();
        for (std::size_t i = 0; i < layers.size(); ++i) {
          way.multiply(kProducts[product], i);
        }
        if (round >= 0) {
          way.seconds[product].push_back(cpu_seconds() - begin);
        }
      }
    }
  }
  const double gflop =
      2e-9 * depth * static_cast<double>(batch) * static_cast<double>(width * width);
  for (Way& way : ways) {
    std::printf("%-32s", way.name.c_str());
    for (std::vector<double>& times : way.seconds) {
      std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
      std::printf(" %6.1f", gflop / times[times.size() / 2]);
    }
    std::printf("   forward, dW, dx, dW +=; GFLOP/s\n");
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
