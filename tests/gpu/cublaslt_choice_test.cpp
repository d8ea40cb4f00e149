// What is chosen over the emulator's cuBLASLts (EMULATOR_LT), of which each lacks something else.
#include <cstdlib>
#include <string>

#include "core/cuda/fused_linear.h"
#include "core/runtime/context.h"
#include "tests/gpu/gpu_test.h"

namespace brigade {
namespace {

std::string lt() {
  const char* value = std::getenv("EMULATOR_LT");
  return value == nullptr ? "" : value;
}

/// Whether y = activation(x Wᵀ + b) is one kernel. Other tests check the results.
bool is_fused(Activation activation) {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::f32, kGpu); };
  const Tensor x = zeros({8, 24});
  const Tensor w = zeros({40, 24});
  const Tensor b = zeros({40});
  const Tensor y = zeros({8, 40});
  return cuda::fused_linear<float>(
      compute_stream(kGpu),
      {8, 24, 40, x.data<float>(), w.data<float>(), b.data<float>(), activation, y.data<float>()});
}

using CublasLtChoice = GpuTest;

TEST_F(CublasLtChoice, IsAKernelThatExistsAndKeepsNaN) {
  for (int time = 0; time < 2; ++time) {  // found, then remembered
    EXPECT_EQ(is_fused(Activation::none), lt() != "none");
    EXPECT_EQ(is_fused(Activation::relu), lt() == "keeps_nan");
  }
}

}  // namespace
}  // namespace brigade
