#include <cublasLt.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "tests/cuda_emulator/emulator_private.h"
#include "tests/cuda_emulator/products_private.h"

namespace emulator {
namespace {

struct Layout {
  cudaDataType_t type;
  std::uint64_t rows, cols;
  std::int64_t leading;
};

struct Description {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t op_a = CUBLAS_OP_N;
  cublasOperation_t op_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  float* bias_vector = nullptr;

  bool relu() const {
    return epilogue == CUBLASLT_EPILOGUE_RELU || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
  }
  bool bias() const {
    return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
  }
};

/// Which cuBLASLt this is: EMULATOR_LT.
bool is(std::string_view kind) {
  static const char* const value = std::getenv("EMULATOR_LT");
  return value != nullptr && kind == value;
}
/// Whether it has kernels with an epilogue.
bool exists() {
  return !is("none");
}

/// The library's objects are so many bytes, which hold ours.
template <class T>
cublasStatus_t init(void* memory, std::size_t bytes, const T& object) {
  if (bytes < sizeof object) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  new (memory) T(object);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t put(T& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof to) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

Factor factor(const void* values, const Layout& layout, cublasOperation_t op) {
  return {values,
          layout.type,
          op,
          static_cast<std::int64_t>(layout.rows),
          static_cast<std::int64_t>(layout.cols),
          layout.leading};
}

std::int64_t rows_of(const Factor& factor) {  // as it is read
  return factor.op == CUBLAS_OP_N ? factor.rows : factor.cols;
}
std::int64_t cols_of(const Factor& factor) {
  return factor.op == CUBLAS_OP_N ? factor.cols : factor.rows;
}

/// d = ReLU(d + bias), each where asked for, after the product. d: [m, n]
void epilogue(const Product& product, const Description& description) {
  const bool keeps_nan = is("keeps_nan");
  for (std::int64_t column = 0; column < product.n; ++column) {
    for (std::int64_t row = 0; row < product.m; ++row) {
      float& value = static_cast<float*>(product.d)[column * product.leading + row];
      value += description.bias() ? description.bias_vector[row] : 0.0F;
      if (description.relu() && (value < 0.0F || (std::isnan(value) && !keeps_nan))) {
        value = 0.0F;
      }
    }
  }
}

bool aligned(const void* memory) {
  return memory != nullptr && reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}

/// Also asked before the kernel: cuBLASLt takes the alignment of biases from this address.
bool bias_is_aligned(const Description& description) {
  return !description.bias() || aligned(description.bias_vector);
}
bool bias_is_on_gpu(const Description& description, std::int64_t m) {
  return !description.bias() ||
         on_gpu(description.bias_vector, static_cast<std::size_t>(m) * sizeof(float));
}

}  // namespace
}  // namespace emulator

using emulator::Description;
using emulator::Layout;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t /*preference*/,
                                                     size_t /*bytes*/) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t /*preference*/,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* /*value*/, size_t bytes) {
  const std::size_t expected = attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8 : 4;
  return bytes == expected ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t bytes,
                                                 cudaDataType type, uint64_t rows, uint64_t cols,
                                                 int64_t leading) {
  return emulator::init(layout, bytes, Layout{type, rows, cols, leading});
}
cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t description, size_t bytes,
                                               cublasComputeType_t compute,
                                               cudaDataType_t /*scale*/) {
  return emulator::init(description, bytes, Description{.compute = compute});
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  auto& description = *reinterpret_cast<Description*>(handle);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return emulator::put(description.op_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return emulator::put(description.op_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return emulator::put(description.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return emulator::put(description.bias_vector, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t description_, cublasLtMatrixLayout_t /*a*/,
    cublasLtMatrixLayout_t /*b*/, cublasLtMatrixLayout_t /*c*/, cublasLtMatrixLayout_t /*d*/,
    cublasLtMatmulPreference_t /*preference*/, int /*wanted*/,
    cublasLtMatmulHeuristicResult_t* results, int* found) {
  if (!emulator::bias_is_aligned(*reinterpret_cast<Description*>(description_))) {
    emulator::refuse(cudaErrorInvalidValue, "cublasLtMatmulAlgoGetHeuristic: bias pointer");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *found = emulator::exists() ? 1 : 0;
  results->state = CUBLAS_STATUS_SUCCESS;
  return emulator::exists() ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t description_,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t layout_a,
                              const void* b, cublasLtMatrixLayout_t layout_b, const void* beta,
                              const void* c, cublasLtMatrixLayout_t /*layout_c*/, void* d,
                              cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t* /*algorithm*/, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  const Description description = *reinterpret_cast<Description*>(description_);
  const Layout& result = *reinterpret_cast<Layout*>(layout_d);
  const auto left = emulator::factor(a, *reinterpret_cast<Layout*>(layout_a), description.op_a);
  const auto right = emulator::factor(b, *reinterpret_cast<Layout*>(layout_b), description.op_b);
  const emulator::Product product{.a = left,
                                  .b = right,
                                  .m = static_cast<std::int64_t>(result.rows),
                                  .n = static_cast<std::int64_t>(result.cols),
                                  .k = emulator::cols_of(left),
                                  .alpha = static_cast<double>(*static_cast<const float*>(alpha)),
                                  .beta = static_cast<double>(*static_cast<const float*>(beta)),
                                  .d = d,
                                  .leading = result.leading,
                                  .precision = description.compute};
  const bool matches = emulator::rows_of(left) == product.m &&
                       emulator::rows_of(right) == product.k &&
                       emulator::cols_of(right) == product.n;
  if (!matches || !product.valid() || c != d || !emulator::aligned(a) || !emulator::aligned(b) ||
      !emulator::aligned(d) || !emulator::bias_is_on_gpu(description, product.m) ||
      !emulator::on_gpu(workspace, workspace_bytes)) {
    emulator::refuse(cudaErrorInvalidValue, "cublasLtMatmul: shapes, addresses or alignments");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  emulator::submit(stream, [product, description] {
    product.compute();
    emulator::epilogue(product, description);
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
