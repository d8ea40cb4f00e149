#pragma once

// Private to core/cuda.
#include <cublasLt.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <type_traits>

#include "core/cuda/launch.h"
#include "core/kernels.h"

/// What products with an epilogue share (fused_linear.cpp, fused_weight_backward.cpp). Which of
/// them cuBLASLt has, and how fast, depends on the GPU and the shape, so each shape is asked for at
/// run time and what came back is remembered.
namespace brigade::cuda {

/// Of every matrix and vector of an LtProduct, in bytes. Slices of buckets begin at multiples of
/// 64, rows of a batch may not.
inline constexpr std::uint32_t kLtAlignment = 16;
bool lt_aligned(std::initializer_list<const void*> memory);

/// Destroys a cuBLASLt object of any kind.
template <class Handle, cublasStatus_t (*Destroy)(Handle)>
struct Destroyer {
  using pointer = Handle;
  void operator()(Handle handle) const { static_cast<void>(Destroy(handle)); }
};
template <class Handle, cublasStatus_t (*Destroy)(Handle)>
using Owner = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<Handle, Destroy>>;

using LtHandle = Owner<cublasLtHandle_t, cublasLtDestroy>;
/// For the GPU that is current.
LtHandle make_lt_handle();

/// One shape's kernel for D = alpha op(A) op(B) + beta D with an epilogue. Column-major and packed.
class LtProduct {
 public:
  /// As it lies in memory, and how the product reads it.
  struct Matrix {
    std::int64_t rows = 0, cols = 0;
    cublasOperation_t op = CUBLAS_OP_N;
  };
  struct Kind {
    cudaDataType_t factors = CUDA_R_32F;  ///< of A and B; D and the vector are f32
    Matrix a, b, d;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    bool vector = false;  ///< the epilogue reads or writes one: a bias or its gradient
    bool tf32 = false;    ///< A and B may be rounded
  };
  struct Memory {
    const void* a = nullptr;
    const void* b = nullptr;
    void* d = nullptr;
    const void* vector = nullptr;  ///< const even where it is written: cuBLASLt is given an address
  };

  LtProduct(cublasLtHandle_t handle, const Kind& kind);

  /// Whether cuBLASLt has such a kernel.
  bool exists() const { return exists_; }
  cublasStatus_t run(cublasLtHandle_t handle, const Stream& s, const Memory& memory,
                     Scale scale) const;

 private:
  using Description = Owner<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
  using Layout = Owner<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
  static Layout make_layout(cudaDataType_t type, const Matrix& matrix);

  Layout a_, b_, d_;
  Description description_;
  cublasLtMatmulHeuristicResult_t choice_{};
  bool exists_ = false;
};

/// This thread's Planner for the GPU of `s`, made the first time. That GPU is current afterwards.
template <class Planner>
Planner& planner_on(const Stream& s) {
  static_cast<void>(stream_of(s));
  thread_local std::map<int, Planner> planners;
  return planners[s.device().index];
}

}  // namespace brigade::cuda
