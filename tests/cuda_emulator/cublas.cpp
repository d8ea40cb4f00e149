#include <cublas_v2.h>

#include <cstdint>

#include "tests/cuda_emulator/emulator_private.h"
#include "tests/cuda_emulator/products_private.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  bool tf32 = false;
};

namespace emulator {
namespace {

constexpr std::uintptr_t kWorkspaceAlignment = 256;

struct Gemm {
  cublasOperation_t op_a, op_b;
  std::int64_t m, n, k;
};

Factor factor(const void* values, cudaDataType_t type, cublasOperation_t op, std::int64_t rows,
              std::int64_t cols, std::int64_t leading) {
  const bool plain = op == CUBLAS_OP_N;
  return {values, type, op, plain ? rows : cols, plain ? cols : rows, leading};
}

cublasStatus_t enqueue(cublasHandle_t handle, const Product& product) {
  if (!product.valid()) {
    refuse(cudaErrorInvalidValue, "cuBLAS: a matrix is not in the GPU's memory, or too small");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  submit(handle->stream, [product] { product.compute(); });
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t gemm(cublasHandle_t handle, const Gemm& shape, cudaDataType_t type, const T* alpha,
                    const void* a, std::int64_t leading_a, const void* b, std::int64_t leading_b,
                    const T* beta, void* c, std::int64_t leading_c) {
  return enqueue(handle, {.a = factor(a, type, shape.op_a, shape.m, shape.k, leading_a),
                          .b = factor(b, type, shape.op_b, shape.k, shape.n, leading_b),
                          .m = shape.m,
                          .n = shape.n,
                          .k = shape.k,
                          .alpha = static_cast<double>(*alpha),
                          .beta = static_cast<double>(*beta),
                          .d = c,
                          .leading = leading_c,
                          .tf32 = handle->tf32});
}

}  // namespace
}  // namespace emulator

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t /*handle*/, void* memory, size_t bytes) {
  const bool aligned =
      reinterpret_cast<std::uintptr_t>(memory) % emulator::kWorkspaceAlignment == 0;
  return aligned && emulator::on_gpu(memory, bytes) ? CUBLAS_STATUS_SUCCESS
                                                    : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->tf32 = mode == CUBLAS_TF32_TENSOR_OP_MATH;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION ? CUBLAS_VER_MAJOR : type == MINOR_VERSION ? CUBLAS_VER_MINOR : 0;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusName(cublasStatus_t /*status*/) {
  return "cuBLAS";
}
const char* cublasGetStatusString(cublasStatus_t /*status*/) {
  return "refused by the emulator, see above";
}

cublasStatus_t cublasSgemm_v2_64(cublasHandle_t handle, cublasOperation_t op_a,
                                 cublasOperation_t op_b, int64_t m, int64_t n, int64_t k,
                                 const float* alpha, const float* a, int64_t leading_a,
                                 const float* b, int64_t leading_b, const float* beta, float* c,
                                 int64_t leading_c) {
  return emulator::gemm(handle, {op_a, op_b, m, n, k}, CUDA_R_32F, alpha, a, leading_a, b,
                        leading_b, beta, c, leading_c);
}
cublasStatus_t cublasDgemm_v2_64(cublasHandle_t handle, cublasOperation_t op_a,
                                 cublasOperation_t op_b, int64_t m, int64_t n, int64_t k,
                                 const double* alpha, const double* a, int64_t leading_a,
                                 const double* b, int64_t leading_b, const double* beta, double* c,
                                 int64_t leading_c) {
  return emulator::gemm(handle, {op_a, op_b, m, n, k}, CUDA_R_64F, alpha, a, leading_a, b,
                        leading_b, beta, c, leading_c);
}
cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t op_a,
                               cublasOperation_t op_b, int64_t m, int64_t n, int64_t k,
                               const void* alpha, const void* a, cudaDataType_t type_a,
                               int64_t leading_a, const void* b, cudaDataType_t type_b,
                               int64_t leading_b, const void* beta, void* c, cudaDataType_t type_c,
                               int64_t leading_c, cublasComputeType_t compute,
                               cublasGemmAlgo_t /*algorithm*/) {
  if (type_a != CUDA_R_16BF || type_b != type_a || type_c != CUDA_R_32F ||
      compute != CUBLAS_COMPUTE_32F) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return emulator::gemm(handle, {op_a, op_b, m, n, k}, type_a, static_cast<const float*>(alpha), a,
                        leading_a, b, leading_b, static_cast<const float*>(beta), c, leading_c);
}

}  // extern "C"
