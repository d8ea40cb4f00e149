#include "core/cuda/fused_linear.h"

#include <cublasLt.h>

#include <cmath>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <type_traits>
#include <utility>

#include "core/context.h"
#include "core/cuda/blas_workspace.h"
#include "core/cuda/launch.h"
#include "core/error.h"
#include "core/tensor.h"

namespace brigade::cuda {
namespace {

/// Of x, w, b and y. Slices of buckets begin at multiples of 64 bytes, rows of a batch may not.
constexpr std::uint32_t kAlignment = 16;

/// Destroys a cuBLASLt object of any kind.
template <class Handle, cublasStatus_t (*Destroy)(Handle)>
struct Destroyer {
  using pointer = Handle;
  void operator()(Handle handle) const { static_cast<void>(Destroy(handle)); }
};
template <class Handle, cublasStatus_t (*Destroy)(Handle)>
using Owner = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<Handle, Destroy>>;

using Product = Owner<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owner<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

Layout make_layout(cudaDataType_t type, std::int64_t rows, std::int64_t cols) {
  cublasLtMatrixLayout_t layout = nullptr;
  CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows),
                                          static_cast<std::uint64_t>(cols), rows));
  return Layout(layout);
}

template <class T>
void set(const Product& product, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(product.get(), attribute, &value, sizeof value));
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

/// One shape's kernel. cuBLASLt is column-major, where y [batch, out] is yᵀ = W xᵀ + b: the weight
/// is A, stored transposed, the input is B, and the bias runs down the rows of the result.
template <class F>
class Plan {
 public:
  Plan(cublasLtHandle_t handle, const LinearArgs<F>& args, bool tf32)
      : w_(make_layout(kFactor, args.in, args.out)),
        x_(make_layout(kFactor, args.in, args.batch)),
        y_(make_layout(CUDA_R_32F, args.out, args.batch)) {
    cublasLtMatmulDesc_t product = nullptr;
    CUBLAS_CHECK(cublasLtMatmulDescCreate(
        &product, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    product_.reset(product);
    set(product_, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(product_, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    const bool relu = args.activation == Activation::relu;
    if (args.b != nullptr) {
      set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE,
          relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
      // From this address cuBLASLt tells how a bias is aligned: the least of all that will come.
      set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, std::uintptr_t{kAlignment});
    } else {
      set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU);
    }
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, product_.get(), w_.get(), x_.get(), y_.get(),
                                       y_.get(), make_preference().get(), 1, &choice_, &found);
    exists_ =
        status == CUBLAS_STATUS_SUCCESS && found > 0 && choice_.state == CUBLAS_STATUS_SUCCESS;
  }

  bool exists() const { return exists_; }

  void run(cublasLtHandle_t handle, const Stream& s, const LinearArgs<F>& args) const {
    const float one = 1.0F;
    const float zero = 0.0F;
    if (args.b != nullptr) {
      set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.b);
    }
    CUBLAS_CHECK(cublasLtMatmul(handle, product_.get(), &one, args.w, w_.get(), args.x, x_.get(),
                                &zero, args.y, y_.get(), args.y, y_.get(), &choice_.algo,
                                blas_workspace(s), kBlasWorkspace, stream_of(s)));
  }

 private:
  static constexpr cudaDataType_t kFactor = std::is_same_v<F, BFloat16> ? CUDA_R_16BF : CUDA_R_32F;

  Layout w_, x_, y_;
  Product product_;
  cublasLtMatmulHeuristicResult_t choice_{};
  bool exists_ = false;
};

/// One thread's products on one GPU.
template <class F>
class Planner {
 public:
  Planner() { CUBLAS_CHECK(cublasLtCreate(&handle_)); }
  ~Planner() { static_cast<void>(cublasLtDestroy(handle_)); }
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  bool run(Stream& s, const LinearArgs<F>& args) {
    const bool tf32 = std::is_same_v<F, float> && Context::current().tf32();
    const Kind kind{.batch = args.batch,
                    .in = args.in,
                    .out = args.out,
                    .bias = args.b != nullptr,
                    .relu = args.activation == Activation::relu,
                    .tf32 = tf32};
    auto known = plans_.find(kind);
    if (known == plans_.end()) {
      auto plan = std::make_unique<Plan<F>>(handle_, args, tf32);
      const bool exists = plan->exists();
      const bool usable = exists && (!kind.relu || keeps_nan(s, *plan, args));
      const char* choice =
          usable   ? "one cuBLASLt kernel"
          : exists ? "cuBLAS and a pass over y, because cuBLASLt's ReLU turns NaN into 0"
                   : "cuBLAS and a pass over y, because cuBLASLt has no such kernel";
      Context::current().note_choice(concat(kind, ": ", choice));
      known = plans_.emplace(kind, usable ? std::move(plan) : nullptr).first;
    }
    if (known->second != nullptr) {
      known->second->run(handle_, s, args);
    }
    return known->second != nullptr;
  }

 private:
  struct Kind {
    std::int64_t batch, in, out;
    bool bias, relu, tf32;
    auto operator<=>(const Kind&) const = default;
    friend std::ostream& operator<<(std::ostream& text, const Kind& kind) {
      return text << "linear "
                  << (std::is_same_v<F, BFloat16> ? "bf16"
                      : kind.tf32                 ? "TF32"
                                                  : "f32")
                  << " " << kind.batch << "x" << kind.in << "x" << kind.out
                  << (kind.bias ? ", bias" : "") << (kind.relu ? ", ReLU" : "");
    }
  };

  /// Whether max(NaN, 0) is NaN, as everywhere else here: a weight that is not a number must reach
  /// the loss, where it is noticed. Tried with an x full of it; the real call overwrites y.
  bool keeps_nan(Stream& s, const Plan<F>& plan, LinearArgs<F> args) const {
    const UseLastingMemory no_part_of_a_step(s.device());
    const DType type = std::is_same_v<F, BFloat16> ? DType::bf16 : DType::f32;
    Tensor x = Tensor::empty({args.batch, args.in}, type, s.device());
    // All bits set is a NaN of either type.
    CUDA_CHECK(cudaMemsetAsync(x.bytes(), 0xff, x.nbytes(), stream_of(s)));
    args.x = reinterpret_cast<const F*>(x.bytes());
    plan.run(handle_, s, args);
    float first = 0.0F;
    CudaKernels::copy_to_host(s, &first, args.y, sizeof first);
    return std::isnan(first);
  }

  cublasLtHandle_t handle_ = nullptr;
  std::map<Kind, std::unique_ptr<Plan<F>>> plans_;  // null: no usable kernel
};

bool aligned(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % kAlignment == 0;
}

}  // namespace

template <class F>
bool fused_linear(Stream& s, const LinearArgs<F>& args) {
  const bool plain = args.b == nullptr && args.activation == Activation::none;
  if (plain || args.batch == 0 || args.in == 0 || args.out == 0 || !aligned(args.x) ||
      !aligned(args.w) || !aligned(args.b) || !aligned(args.y)) {
    return false;
  }
  static_cast<void>(stream_of(s));  // cuBLASLt's handle is for the GPU that is current
  thread_local std::map<int, std::unique_ptr<Planner<F>>> planners;
  std::unique_ptr<Planner<F>>& planner = planners[s.device().index];
  if (planner == nullptr) {
    planner = std::make_unique<Planner<F>>();
  }
  return planner->run(s, args);
}

template bool fused_linear(Stream&, const LinearArgs<float>&);
template bool fused_linear(Stream&, const LinearArgs<BFloat16>&);

}  // namespace brigade::cuda
