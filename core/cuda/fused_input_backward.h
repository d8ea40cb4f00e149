#pragma once

// Private to core/cuda.
#include "core/kernels.h"

namespace brigade::cuda {

/// CudaKernels::linear_input_backward in one kernel: cuBLASLt's product dz W, whose epilogue DRELU
/// lets through what the mask has a 1 for. F is float or BFloat16.
///
/// False, dx undetermined, without a mask, and where cuBLASLt has no such kernel for the shape,
/// the types or the alignment, or one that fails a trial. What it has is asked the first time a
/// shape comes and remembered; that call waits for the GPU and may not be captured into a CUDA
/// graph.
template <class F>
bool fused_input_backward(Stream& s, const InputBackwardArgs<float, F>& args);

}  // namespace brigade::cuda
