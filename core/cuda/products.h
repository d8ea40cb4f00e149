#pragma once

// Private to core/cuda and its tests.
#include <cublas_v2.h>

#include <cstddef>

#include "core/runtime/stream.h"

namespace brigade::cuda {

/// What cuBLAS itself takes on Hopper (manual, cublasSetWorkspace).
inline constexpr std::size_t kBlasWorkspace = std::size_t{32} << 20U;  // bytes

/// Memory for the products of this thread on `s`, allocated the first time and kept: cuBLAS and
/// cuBLASLt share one workspace instead of each having its own. Products that share it must not run
/// side by side, and on one stream they do not.
void* blas_workspace(const Stream& s);

/// CUBLAS_COMPUTE_64F for CUDA_R_64F, CUBLAS_COMPUTE_32F for CUDA_R_16BF, and for CUDA_R_32F what
/// this thread's MatmulPrecision asks for.
cublasComputeType_t compute_type(cudaDataType_t factors);

}  // namespace brigade::cuda
