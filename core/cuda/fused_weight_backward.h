#pragma once

// Private to core/cuda.
#include "core/kernels.h"

namespace brigade::cuda {

/// CudaKernels::linear_weight_backward in one kernel: cuBLASLt's product dw, whose epilogue sums
/// the dz that it reads. In f32, where column_sum adds up in f64.
///
/// False, with nothing done, where cuBLASLt has no such kernel for the shape or the alignment, or
/// one whose sums are wrong in a trial, and where dw_scale.alpha is 0. No epilogue adds to db: that
/// takes one more pass, over `out` numbers. What it has is asked the first time a shape comes,
/// whatever the scales, and remembered; that call waits for the GPU and may not be captured into a
/// CUDA graph.
bool fused_weight_backward(Stream& s, const WeightBackwardArgs<float>& args);

}  // namespace brigade::cuda
