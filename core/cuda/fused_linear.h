#pragma once

// Private to core/cuda.
#include <cstdint>

#include "core/kernels.h"

namespace brigade::cuda {

/// CpuKernels::linear with a bias, a ReLU or both, in one kernel: cuBLASLt's product with an
/// epilogue. F is float or BFloat16.
template <class F>
struct LinearArgs {
  std::int64_t batch = 0, in = 0, out = 0;
  const F* x = nullptr;
  const F* w = nullptr;
  const float* b = nullptr;
  Activation activation = Activation::none;
  float* y = nullptr;
};

/// False, with nothing done, where cuBLASLt has no such kernel for the shape, the types or the
/// alignment, or one whose ReLU turns NaN into 0. What it has is asked the first time a shape comes
/// and remembered; that call waits for the GPU and may not be captured into a CUDA graph.
template <class F>
bool fused_linear(Stream& s, const LinearArgs<F>& args);

}  // namespace brigade::cuda
