#include "core/cuda/cublaslt.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/cuda/blas_workspace.h"

namespace brigade::cuda {
namespace {

using Preference = Owner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

Preference make_preference() {
  cublasLtMatmulPreference_t made = nullptr;
  CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&made));
  Preference preference(made);
  const auto put = [made](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value));
  };
  put(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kBlasWorkspace);
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    put(operand, kLtAlignment);
  }
  return preference;
}

template <class T>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
         const T& value) {
  CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value));
}

}  // namespace

bool lt_aligned(std::initializer_list<const void*> memory) {
  return std::all_of(memory.begin(), memory.end(), [](const void* each) {
    return reinterpret_cast<std::uintptr_t>(each) % kLtAlignment == 0;
  });
}

bool epilogues_wanted() {
  const char* setting = std::getenv("BRIGADE_EPILOGUES");
  return setting == nullptr || std::string_view(setting) != "0";
}

LtHandle make_lt_handle() {
  cublasLtHandle_t handle = nullptr;
  CUBLAS_CHECK(cublasLtCreate(&handle));
  return LtHandle(handle);
}

LtProduct::Layout LtProduct::make_layout(cudaDataType_t type, const Matrix& matrix) {
  cublasLtMatrixLayout_t layout = nullptr;
  CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(matrix.rows),
                                          static_cast<std::uint64_t>(matrix.cols), matrix.rows));
  return Layout(layout);
}

LtProduct::LtProduct(cublasLtHandle_t handle, const Kind& kind)
    : a_(make_layout(kind.factors, kind.a)),
      b_(make_layout(kind.factors, kind.b)),
      d_(make_layout(CUDA_R_32F, kind.d)) {
  cublasLtMatmulDesc_t description = nullptr;
  CUBLAS_CHECK(cublasLtMatmulDescCreate(
      &description, kind.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
  description_.reset(description);
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, kind.a.op);
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, kind.b.op);
  set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, kind.epilogue);
  if (kind.vector) {
    // From this address cuBLASLt tells how the vector is aligned: the least of all that will come.
    set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, std::uintptr_t{kLtAlignment});
  }
  if (kind.mask) {
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, std::uintptr_t{kLtAlignment});
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 8 * mask_bytes(kind.d.rows));
  }
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, description, a_.get(), b_.get(), d_.get(), d_.get(),
                                     make_preference().get(), 1, &choice_, &found);
  exists_ = status == CUBLAS_STATUS_SUCCESS && found > 0 && choice_.state == CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t LtProduct::run(cublasLtHandle_t handle, const Stream& s, const Memory& memory,
                              Scale scale) const {
  const auto alpha = static_cast<float>(scale.alpha);
  const auto beta = static_cast<float>(scale.beta);
  if (memory.vector != nullptr) {
    set(description_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, memory.vector);
  }
  if (memory.mask != nullptr) {
    set(description_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, memory.mask);
  }
  return cublasLtMatmul(handle, description_.get(), &alpha, memory.a, a_.get(), memory.b, b_.get(),
                        &beta, memory.d, d_.get(), memory.d, d_.get(), &choice_.algo,
                        blas_workspace(s), kBlasWorkspace, stream_of(s));
}

}  // namespace brigade::cuda
