#include "core/cuda/products.h"

#include <map>
#include <utility>

#include "core/cuda/launch.h"
#include "core/runtime/context.h"
#include "core/tensor.h"

namespace brigade::cuda {

void* blas_workspace(const Stream& s) {
  thread_local std::map<std::pair<int, cudaStream_t>, Tensor> workspaces;
  Tensor& workspace = workspaces[{s.device().index, stream_of(s)}];
  if (!workspace.defined()) {
    workspace = Tensor::empty({static_cast<std::int64_t>(kBlasWorkspace / sizeof(float))},
                              DType::f32, s.device());
  }
  return workspace.bytes();
}

cublasComputeType_t compute_type(cudaDataType_t factors) {
  if (factors != CUDA_R_32F) {
    return factors == CUDA_R_64F ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
  }
  switch (Context::current().matmul_precision()) {
    case MatmulPrecision::high:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case MatmulPrecision::medium:
      return CUBLAS_COMPUTE_32F_FAST_16BF;
    default:
      return CUBLAS_COMPUTE_32F;
  }
}

}  // namespace brigade::cuda
