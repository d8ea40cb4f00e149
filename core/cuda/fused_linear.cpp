#include "core/cuda/fused_linear.h"

#include <cmath>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <type_traits>
#include <utility>

#include "core/context.h"
#include "core/cuda/cublaslt.h"
#include "core/error.h"
#include "core/tensor.h"

namespace brigade::cuda {
namespace {

/// cuBLASLt is column-major, where y [batch, out] is yᵀ = W xᵀ + b: the weight is A, stored
/// transposed, the input is B, and the bias runs down the rows of the result.
template <class F>
LtProduct::Kind product_of(const LinearArgs<F>& args, bool tf32) {
  const bool relu = args.activation == Activation::relu;
  const bool bias = args.b != nullptr;
  return {.factors = std::is_same_v<F, BFloat16> ? CUDA_R_16BF : CUDA_R_32F,
          .a = {.rows = args.in, .cols = args.out, .op = CUBLAS_OP_T},
          .b = {.rows = args.in, .cols = args.batch},
          .d = {.rows = args.out, .cols = args.batch},
          .epilogue = !bias  ? CUBLASLT_EPILOGUE_RELU
                      : relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                             : CUBLASLT_EPILOGUE_BIAS,
          .vector = bias,
          .tf32 = tf32};
}

/// One thread's products on one GPU.
template <class F>
class LinearPlanner {
 public:
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
      LtProduct product(handle_.get(), product_of(args, tf32));
      const bool exists = product.exists();
      const bool usable = exists && (!kind.relu || keeps_nan(s, product, args));
      const char* choice = usable   ? "one cuBLASLt kernel"
                           : exists ? "ReLU in a pass over y, because cuBLASLt's turns NaN into 0"
                                    : "a pass over y, because cuBLASLt has no such kernel";
      Context::current().note_choice(concat(kind, ": ", choice));
      known = plans_.emplace(kind, std::nullopt).first;
      if (usable) {
        known->second = std::move(product);
      }
    }
    if (known->second) {
      launch(s, *known->second, args);
    }
    return known->second.has_value();
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

  void launch(const Stream& s, const LtProduct& product, const LinearArgs<F>& args) const {
    CUBLAS_CHECK(product.run(handle_.get(), s,
                             {.a = args.w, .b = args.x, .d = args.y, .vector = args.b}, {}));
  }

  /// Whether max(NaN, 0) is NaN, as everywhere else here: a weight that is not a number must reach
  /// the loss, where it is noticed. Tried with an x full of it; the real call overwrites y.
  bool keeps_nan(Stream& s, const LtProduct& product, LinearArgs<F> args) const {
    const UseLastingMemory no_part_of_a_step(s.device());
    const DType type = std::is_same_v<F, BFloat16> ? DType::bf16 : DType::f32;
    Tensor x = Tensor::empty({args.batch, args.in}, type, s.device());
    // All bits set is a NaN of either type.
    CUDA_CHECK(cudaMemsetAsync(x.bytes(), 0xff, x.nbytes(), stream_of(s)));
    args.x = reinterpret_cast<const F*>(x.bytes());
    launch(s, product, args);
    float first = 0.0F;
    CudaKernels::copy_to_host(s, &first, args.y, sizeof first);
    return std::isnan(first);
  }

  LtHandle handle_ = make_lt_handle();
  std::map<Kind, std::optional<LtProduct>> plans_;  // nothing: no usable kernel
};

}  // namespace

template <class F>
bool fused_linear(Stream& s, const LinearArgs<F>& args) {
  const bool plain = args.b == nullptr && args.activation == Activation::none;
  if (plain || args.batch == 0 || args.in == 0 || args.out == 0 ||
      !lt_aligned({args.x, args.w, args.b, args.y})) {
    return false;
  }
  return planner_on<LinearPlanner<F>>(s).run(s, args);
}

template bool fused_linear(Stream&, const LinearArgs<float>&);
template bool fused_linear(Stream&, const LinearArgs<BFloat16>&);

}  // namespace brigade::cuda
