#include "core/cuda/fused_linear.h"

#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/cuda/launch.h"
#include "core/cuda/products.h"
#include "core/error.h"
#include "core/tensor.h"

namespace brigade::cuda {
namespace {

/// Of every matrix and vector, in bytes: what the heuristic may assume.
constexpr std::uint32_t kAlignment = 16;

/// What the choice of a kernel depends on.
struct Kind {
  cudaDataType_t factors = CUDA_R_32F;
  std::int64_t batch = 0, in = 0, out = 0;
  bool bias = false, relu = false;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  auto operator<=>(const Kind&) const = default;

  cublasLtEpilogue_t epilogue() const {
    return !relu  ? CUBLASLT_EPILOGUE_BIAS
           : bias ? CUBLASLT_EPILOGUE_RELU_BIAS
                  : CUBLASLT_EPILOGUE_RELU;
  }
};

/// The kernel for one Kind. cuBLASLt is column-major, where y [batch, out] is yᵀ = W xᵀ + b: W is
/// the first factor, stored transposed, and the bias runs down the rows of the result.
class Product {
 public:
  Product(cublasLtHandle_t handle, const Kind& kind) {
    init_layout(w_, kind.factors, kind.in, kind.out);
    init_layout(x_, kind.factors, kind.in, kind.batch);
    init_layout(y_, CUDA_R_32F, kind.out, kind.batch);
    CUBLAS_CHECK(cublasLtMatmulDescInit(&description_, kind.compute, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, kind.epilogue());
    if (kind.bias) {
      // From this address cuBLASLt derives how biases are aligned: the least of all that will come.
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, std::uintptr_t{kAlignment});
    }
    cublasLtMatmulPreferenceOpaque_t preference{};
    CUBLAS_CHECK(cublasLtMatmulPreferenceInit(&preference));
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      CUBLAS_CHECK(
          cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value));
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kBlasWorkspace);
    for (const auto operand :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(operand, kAlignment);
    }
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, &description_, &w_, &x_, &y_, &y_, &preference, 1, &choice_, &found);
    exists_ =
        status == CUBLAS_STATUS_SUCCESS && found > 0 && choice_.state == CUBLAS_STATUS_SUCCESS;
  }

  bool exists() const { return exists_; }

  template <class F>
  cublasStatus_t run(cublasLtHandle_t handle, const Stream& s, const LinearArgs<float, F>& args) {
    constexpr float kOne = 1.0F;
    constexpr float kZero = 0.0F;
    if (args.b != nullptr) {
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.b);
    }
    return cublasLtMatmul(handle, &description_, &kOne, args.w, &w_, args.x, &x_, &kZero, args.y,
                          &y_, args.y, &y_, &choice_.algo, blas_workspace(s), kBlasWorkspace,
                          stream_of(s));
  }

 private:
  static void init_layout(cublasLtMatrixLayoutOpaque_t& layout, cudaDataType_t type,
                          std::int64_t rows, std::int64_t cols) {
    CUBLAS_CHECK(cublasLtMatrixLayoutInit(&layout, type, static_cast<std::uint64_t>(rows),
                                          static_cast<std::uint64_t>(cols), rows));
  }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(&description_, attribute, &value, sizeof value));
  }

  cublasLtMatrixLayoutOpaque_t w_{}, x_{}, y_{};
  cublasLtMatmulDescOpaque_t description_{};
  cublasLtMatmulHeuristicResult_t choice_{};
  bool exists_ = false;
};

/// What one thread has found out about one GPU.
struct Products {
  cublasLtHandle_t handle = nullptr;
  std::map<Kind, std::optional<Product>> known;  // none: not usable

  Products() { CUBLAS_CHECK(cublasLtCreate(&handle)); }
  ~Products() { static_cast<void>(cublasLtDestroy(handle)); }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
};

/// Runs `product` on sums that are NaN. A weight that is not a number must reach the loss, where it
/// is noticed, so max(NaN, 0) has to be NaN. Returns whether it is. Overwrites y, which the real
/// call writes again.
template <class F>
bool keeps_nan(cublasLtHandle_t handle, Stream& s, Product& product,
               const LinearArgs<float, F>& args) {
  const Tensor x = Tensor::empty({args.batch, args.in}, kDTypeOf<F>, s.device());
  CUDA_CHECK(cudaMemsetAsync(x.bytes(), 0xff, x.nbytes(), stream_of(s)));
  LinearArgs<float, F> tried = args;
  tried.x = x.data<F>();
  float first = 0.0F;
  if (product.run(handle, s, tried) == CUBLAS_STATUS_SUCCESS) {
    CudaKernels::copy_to_host(s, &first, args.y, sizeof first);
  }
  return std::isnan(first);
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
  constexpr cudaDataType_t kFactors = kBf16 ? CUDA_R_16BF : CUDA_R_32F;
  const Kind kind{.factors = kFactors,
                  .batch = args.batch,
                  .in = args.in,
                  .out = args.out,
                  .bias = args.b != nullptr,
                  .relu = relu,
                  .compute = compute_type(kFactors)};
  static_cast<void>(stream_of(s));  // makes the GPU of `s` current
  thread_local std::map<int, Products> gpus;
  auto& [handle, known] = gpus[s.device().index];
  auto entry = known.find(kind);
  if (entry == known.end()) {
    std::optional<Product> made(std::in_place, handle, kind);
    if (!made->exists() || !keeps_nan(handle, s, *made, args)) {
      made.reset();
    }
    entry = known.emplace(kind, std::move(made)).first;
  }
  std::optional<Product>& product = entry->second;
  if (product) {
    CUBLAS_CHECK(product->run(handle, s, args));
  }
  return product.has_value();
}

template bool fused_linear(Stream&, const LinearArgs<float>&);
template bool fused_linear(Stream&, const LinearArgs<float, BFloat16>&);

}  // namespace brigade::cuda
