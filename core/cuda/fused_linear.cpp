#include "core/cuda/fused_linear.h"

#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>

#include "core/cuda/blas_workspace.h"
#include "core/cuda/launch.h"
#include "core/error.h"
#include "core/runtime/context.h"
#include "core/tensor.h"

namespace brigade::cuda {
namespace {

/// Of every matrix and vector, in bytes: what the heuristic may assume.
constexpr std::uint32_t kAlignment = 16;

/// Owns a cuBLASLt object.
template <class Handle, cublasStatus_t (*Destroy)(Handle)>
struct Destroyer {
  using pointer = Handle;
  void operator()(Handle handle) const { static_cast<void>(Destroy(handle)); }
};
template <class Handle, cublasStatus_t (*Destroy)(Handle)>
using Owner = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<Handle, Destroy>>;
using Layout = Owner<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;
using Description = Owner<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using LtHandle = Owner<cublasLtHandle_t, cublasLtDestroy>;

/// What the choice of a kernel depends on.
struct Kind {
  cudaDataType_t factors = CUDA_R_32F;
  std::int64_t batch = 0, in = 0, out = 0;
  bool bias = false, relu = false, tf32 = false;
  auto operator<=>(const Kind&) const = default;

  std::string name() const {
    const char* precision = factors == CUDA_R_16BF ? "bf16" : tf32 ? "TF32" : "f32";
    return message_of("linear ", precision, " ", batch, "x", in, "x", out, bias ? ", bias" : "",
                      relu ? ", ReLU" : "");
  }
  cublasLtEpilogue_t epilogue() const {
    return !relu  ? CUBLASLT_EPILOGUE_BIAS
           : bias ? CUBLASLT_EPILOGUE_RELU_BIAS
                  : CUBLASLT_EPILOGUE_RELU;
  }
};

template <class T>
void set(const Description& description, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof value));
}

Layout make_layout(cudaDataType_t type, std::int64_t rows, std::int64_t cols) {
  cublasLtMatrixLayout_t layout = nullptr;
  CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows),
                                          static_cast<std::uint64_t>(cols), rows));
  return Layout(layout);
}

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
    put(operand, kAlignment);
  }
  return preference;
}

/// The kernel for one Kind. cuBLASLt is column-major, where y [batch, out] is yᵀ = W xᵀ + b: W is
/// the first factor, stored transposed, and the bias runs down the rows of the result.
class Product {
 public:
  Product(cublasLtHandle_t handle, const Kind& kind)
      : w_(make_layout(kind.factors, kind.in, kind.out)),
        x_(make_layout(kind.factors, kind.in, kind.batch)),
        y_(make_layout(CUDA_R_32F, kind.out, kind.batch)) {
    cublasLtMatmulDesc_t description = nullptr;
    CUBLAS_CHECK(cublasLtMatmulDescCreate(
        &description, kind.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    description_.reset(description);
    set(description_, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE, kind.epilogue());
    if (kind.bias) {
      // From this address cuBLASLt derives how biases are aligned: the least of all that will come.
      set(description_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, std::uintptr_t{kAlignment});
    }
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, description, w_.get(), x_.get(), y_.get(), y_.get(),
                                       make_preference().get(), 1, &choice_, &found);
    exists_ =
        status == CUBLAS_STATUS_SUCCESS && found > 0 && choice_.state == CUBLAS_STATUS_SUCCESS;
  }

  bool exists() const { return exists_; }

  template <class F>
  cublasStatus_t run(cublasLtHandle_t handle, const Stream& s,
                     const LinearArgs<float, F>& args) const {
    constexpr float kOne = 1.0F;
    constexpr float kZero = 0.0F;
    if (args.b != nullptr) {
      set(description_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.b);
    }
    return cublasLtMatmul(handle, description_.get(), &kOne, args.w, w_.get(), args.x, x_.get(),
                          &kZero, args.y, y_.get(), args.y, y_.get(), &choice_.algo,
                          blas_workspace(s), kBlasWorkspace, stream_of(s));
  }

 private:
  Layout w_, x_, y_;
  Description description_;
  cublasLtMatmulHeuristicResult_t choice_{};
  bool exists_ = false;
};

/// What one thread has found out about one GPU.
struct Products {
  LtHandle handle;
  std::map<Kind, std::unique_ptr<Product>> known;  // null: not usable
};

Products& products_of(const Stream& s) {
  static_cast<void>(stream_of(s));  // makes the GPU of `s` current
  thread_local std::map<int, Products> gpus;
  Products& products = gpus[s.device().index];
  if (!products.handle) {
    cublasLtHandle_t handle = nullptr;
    CUBLAS_CHECK(cublasLtCreate(&handle));
    products.handle.reset(handle);
  }
  return products;
}

/// Runs `product` on sums that are NaN. A weight that is not a number must reach the loss, where it
/// is noticed, so max(NaN, 0) has to be NaN. Returns what is wrong with the kernel, or null.
/// Overwrites y, which the real call writes again.
template <class F>
const char* fault_of(cublasLtHandle_t handle, Stream& s, const Product& product,
                     const LinearArgs<float, F>& args) {
  if (!product.exists()) {
    return "cuBLASLt has no such kernel";
  }
  const Tensor x = Tensor::empty({args.batch, args.in}, kDTypeOf<F>, s.device());
  CUDA_CHECK(cudaMemsetAsync(x.bytes(), 0xff, x.nbytes(), stream_of(s)));
  LinearArgs<float, F> tried = args;
  tried.x = x.data<F>();
  if (product.run(handle, s, tried) != CUBLAS_STATUS_SUCCESS) {
    return "cuBLASLt's kernel does not run";
  }
  float first = 0.0F;
  CudaKernels::copy_to_host(s, &first, args.y, sizeof first);
  return std::isnan(first) ? nullptr : "the ReLU of cuBLASLt's kernel turns NaN into 0";
}

bool aligned(std::initializer_list<const void*> memory) {
  return std::all_of(memory.begin(), memory.end(), [](const void* each) {
    return reinterpret_cast<std::uintptr_t>(each) % kAlignment == 0;
  });
}

}  // namespace

template <class F>
bool fused_linear(Stream& s, const LinearArgs<float, F>& args) {
  constexpr bool kBf16 = std::is_same_v<F, BFloat16>;
  const bool relu = args.activation == Activation::relu;
  if ((args.b == nullptr && !relu) || args.batch == 0 || args.in == 0 || args.out == 0 ||
      !aligned({args.x, args.w, args.b, args.y})) {
    return false;
  }
  const Kind kind{.factors = kBf16 ? CUDA_R_16BF : CUDA_R_32F,
                  .batch = args.batch,
                  .in = args.in,
                  .out = args.out,
                  .bias = args.b != nullptr,
                  .relu = relu,
                  .tf32 = !kBf16 && Context::current().tf32()};
  Products& products = products_of(s);
  auto known = products.known.find(kind);
  if (known == products.known.end()) {
    auto product = std::make_unique<Product>(products.handle.get(), kind);
    const char* fault = fault_of(products.handle.get(), s, *product, args);
    Context::current().note_choice(message_of(
        kind.name(), ": ",
        fault == nullptr ? "one cuBLASLt kernel" : message_of("a pass over y, because ", fault)));
    known = products.known.emplace(kind, fault == nullptr ? std::move(product) : nullptr).first;
  }
  if (known->second) {
    CUBLAS_CHECK(known->second->run(products.handle.get(), s, args));
  }
  return known->second != nullptr;
}

template bool fused_linear(Stream&, const LinearArgs<float>&);
template bool fused_linear(Stream&, const LinearArgs<float, BFloat16>&);

}  // namespace brigade::cuda
