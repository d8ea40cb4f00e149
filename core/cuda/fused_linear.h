#pragma once

// Private to core/cuda.
#include "core/kernels.h"

namespace brigade::cuda {

/// CudaProducts<float>::linear with a bias, a ReLU or both in one kernel: cuBLASLt's product with
/// an epilogue. F is float or BFloat16.
///
/// Returns false, and leaves y undetermined, if cuBLASLt has no such kernel for the shape, the
/// types or the alignment, or if its ReLU turns NaN into 0. The first call with a shape asks
/// cuBLASLt and waits for the GPU; the answer is cached per thread.
template <class F>
bool fused_linear(Stream& s, const LinearArgs<float, F>& args);

}  // namespace brigade::cuda
