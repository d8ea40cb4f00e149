#include <cublas_v2.h>

#include <cstdint>

#include "tests/cuda_emulator/emulator_private.h"
#include "tests/cuda_emulator/products_private.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace emulator {
namespace {

constexpr std::uintptr_t kWorkspaceAlignment = 256;

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

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t op_a,
                               cublasOperation_t op_b, int64_t m, int64_t n, int64_t k,
                               const void* alpha, const void* a, cudaDataType_t type_a,
                               int64_t leading_a, const void* b, cudaDataType_t type_b,
                               int64_t leading_b, const void* beta, void* c, cudaDataType_t type_c,
                               int64_t leading_c, cublasComputeType_t compute,
                               cublasGemmAlgo_t /*algorithm*/) {
  const bool is_double = type_c == CUDA_R_64F;
  const bool fast =
      compute == CUBLAS_COMPUTE_32F_FAST_TF32 || compute == CUBLAS_COMPUTE_32F_FAST_16BF;
  const bool in_float = compute == CUBLAS_COMPUTE_32F || (fast && type_a == CUDA_R_32F);
  const bool known = is_double ? type_a == CUDA_R_64F && compute == CUBLAS_COMPUTE_64F
                               : (type_a == CUDA_R_32F || type_a == CUDA_R_16BF) &&
                                     type_c == CUDA_R_32F && in_float;
  if (!known || type_b != type_a) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const auto scale = [is_double](const void* value) {
    return is_double ? *static_cast<const double*>(value)
                     : static_cast<double>(*static_cast<const float*>(value));
  };
  return emulator::enqueue(handle, {.a = emulator::factor(a, type_a, op_a, m, k, leading_a),
                                    .b = emulator::factor(b, type_b, op_b, k, n, leading_b),
                                    .m = m,
                                    .n = n,
                                    .k = k,
                                    .alpha = scale(alpha),
                                    .beta = scale(beta),
                                    .d = c,
                                    .leading = leading_c,
                                    .precision = compute});
}

}  // extern "C"
