#pragma once

// Private to core/cuda.
#include <cublasLt.h>

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "core/cuda/launch.h"
#include "core/error.h"
#include "core/kernels.h"
#include "core/runtime/context.h"

/// What products with an epilogue share (fused_linear.cpp, fused_input_backward.cpp,
/// fused_weight_backward.cpp). Which of them cuBLASLt has, and how fast, depends on the GPU and the
/// shape, so each shape is asked for at run time and what came back is remembered.
namespace brigade::cuda {

/// Of every matrix and vector of an LtProduct, in bytes. Slices of buckets begin at multiples of
/// 64, rows of a batch may not.
inline constexpr std::uint32_t kLtAlignment = 16;
bool lt_aligned(std::initializer_list<const void*> memory);

template <class F>
inline constexpr cudaDataType_t kLtType = std::is_same_v<F, BFloat16> ? CUDA_R_16BF : CUDA_R_32F;

/// Not with BRIGADE_EPILOGUES=0 in the environment, which is for measuring what they gain. Asked
/// once per kind of product.
bool epilogues_wanted();

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
    auto operator<=>(const Matrix&) const = default;
  };
  struct Kind {
    cudaDataType_t factors = CUDA_R_32F;  ///< of A and B; D and the vector are f32
    Matrix a, b, d;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    bool vector = false;  ///< the epilogue reads or writes one: a bias or its gradient
    bool mask = false;    ///< it reads or writes a ReLU's: mask_bytes() per column of D
    /// A and B may be rounded; nothing for bf16, whose products are exact.
    bool tf32 = factors == CUDA_R_32F && Context::current().tf32();
    auto operator<=>(const Kind&) const = default;
    const char* precision() const {
      return factors == CUDA_R_16BF ? "bf16" : tf32 ? "TF32" : "f32";
    }
  };
  struct Memory {
    const void* a = nullptr;
    const void* b = nullptr;
    void* d = nullptr;
    // Const even where they are written: cuBLASLt is given an address.
    const void* vector = nullptr;
    const void* mask = nullptr;
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

/// What one thread knows of the products on one GPU. Plan: an LtProduct, or what holds one.
template <class Plan>
class LtPlans {
 public:
  cublasLtHandle_t handle() const { return handle_.get(); }

  /// Nothing where cuBLASLt has no such kernel, or one for which trial(product, fault) gives
  /// nothing or finds no memory: the GPU may be full of activations. All is asked the first time a
  /// kind comes, and Context::note_choice tells what came out, of what name() says: "linear f32
  /// 64x256x256: a pass over y, because cuBLASLt has no such kernel". Error if that time is in a
  /// recording of `s`: a trial waits for the GPU.
  template <class Name, class Trial>
  const std::optional<Plan>& of(const Stream& s, const LtProduct::Kind& kind, const Name& name,
                                const char* otherwise, const Trial& trial) {
    auto known = plans_.find(kind);
    if (known == plans_.end()) {
      BRIGADE_CHECK(!is_captured(stream_of(s)), name(),
                    ": expected shapes that have run before, got a new one while a CUDA graph is "
                    "recorded; execute the same work once without recording it");
      LtProduct product(handle(), kind);
      std::optional<Plan> plan;
      std::string lack = "cuBLASLt has no such kernel";
      if (!epilogues_wanted()) {
        lack = "BRIGADE_EPILOGUES is 0";
      } else if (product.exists()) {
        const char* fault = "does not run";  // unless the trial comes to know better
        try {
          plan = trial(std::move(product), fault);
          lack = concat("cuBLASLt's kernel failed a trial: it ", fault);
        } catch (const OutOfMemoryError&) {
          lack = "there was no memory to try cuBLASLt's kernel";
        }
      }
      Context::current().note_choice(plan ? concat(name(), ": one cuBLASLt kernel")
                                          : concat(name(), ": ", otherwise, ", because ", lack));
      known = plans_.emplace(kind, std::move(plan)).first;
    }
    return known->second;
  }

 private:
  LtHandle handle_ = make_lt_handle();
  std::map<LtProduct::Kind, std::optional<Plan>> plans_;
};

/// This thread's for the GPU of `s`, which is current afterwards.
template <class Plan>
LtPlans<Plan>& lt_plans(const Stream& s) {
  static_cast<void>(stream_of(s));
  thread_local std::map<int, LtPlans<Plan>> plans;
  return plans[s.device().index];
}

}  // namespace brigade::cuda
