#pragma once

// Private to core/cuda.
#include "core/kernels.h"

namespace brigade::cuda {

/// CudaKernels::linear with a bias, a ReLU or both, and the mask, in one kernel: cuBLASLt's product
/// with an epilogue. F is float or BFloat16.
///
/// False, y and mask undetermined, where cuBLASLt has no such kernel for the shape, the types or
/// the alignment, or one that does not run, whose ReLU turns NaN into 0 or whose mask is another
/// than ours. What it has is asked the first time a shape comes and remembered; that call waits for
/// the GPU and may not be captured into a CUDA graph.
template <class F>
bool fused_linear(Stream& s, const LinearArgs<float, F>& args);

}  // namespace brigade::cuda
