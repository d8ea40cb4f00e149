#pragma once

// Private to the sources that call CUDA: no public header may include it.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "core/error.h"

/// Throws brigade::Error naming the call and CUDA's own reason. The runtime's "last error" is
/// cleared first, so that the next launch check does not blame an innocent kernel for it.
#define CUDA_CHECK(call)                                                                     \
  do {                                                                                       \
    const cudaError_t cuda_status = (call);                                                  \
    if (cuda_status != cudaSuccess) [[unlikely]] {                                           \
      static_cast<void>(cudaGetLastError());                                                 \
      ::brigade::throw_error(__FILE__, __LINE__,                                             \
                             fmt::format("{}: {}: {}", #call, cudaGetErrorName(cuda_status), \
                                         cudaGetErrorString(cuda_status)));                  \
    }                                                                                        \
  } while (false)

#define CUBLAS_CHECK(call)                                                                        \
  do {                                                                                            \
    const cublasStatus_t cublas_status = (call);                                                  \
    if (cublas_status != CUBLAS_STATUS_SUCCESS) [[unlikely]] {                                    \
      ::brigade::throw_error(__FILE__, __LINE__,                                                  \
                             fmt::format("{}: {}: {}", #call, cublasGetStatusName(cublas_status), \
                                         cublasGetStatusString(cublas_status)));                  \
    }                                                                                             \
  } while (false)
