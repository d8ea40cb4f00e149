#pragma once

// Private to core/cuda and the GPU communicators.
#include "core/cuda/cuda_check.h"
#include "core/runtime/stream.h"

namespace brigade::cuda {

/// The CUDA stream behind `s`, with its device made current on this thread: a launch from another
/// device's context would fail.
inline cudaStream_t stream_of(const Stream& s) {
  CUDA_CHECK(cudaSetDevice(s.device().index));
  return static_cast<cudaStream_t>(s.native_handle());
}

}  // namespace brigade::cuda
