#include "core/cuda/fused_linear.h"

#include <cmath>
#include <optional>
#include <utility>

#include "core/cuda/cublaslt.h"
#include "core/cuda/trial.h"
#include "core/error.h"
#include "core/runtime/context.h"
#include "core/tensor.h"

namespace brigade::cuda {
namespace {

/// cuBLASLt is column-major, where y [batch, out] is yᵀ = W xᵀ + b: the weight is A, stored
/// transposed, the input is B, and the bias runs down the rows of the result.
template <class F>
LtProduct::Kind product_of(const LinearArgs<float, F>& args) {
  const bool relu = args.activation == Activation::relu;
  const bool bias = args.b != nullptr;
  const bool mask = args.mask != nullptr;
  return {.factors = kLtType<F>,
          .a = {.rows = args.in, .cols = args.out, .op = CUBLAS_OP_T},
          .b = {.rows = args.in, .cols = args.batch},
          .d = {.rows = args.out, .cols = args.batch},
          .epilogue = !relu ? CUBLASLT_EPILOGUE_BIAS
                      : bias
                          ? (mask ? CUBLASLT_EPILOGUE_RELU_AUX_BIAS : CUBLASLT_EPILOGUE_RELU_BIAS)
                          : (mask ? CUBLASLT_EPILOGUE_RELU_AUX : CUBLASLT_EPILOGUE_RELU),
          .vector = bias,
          .mask = mask};
}

template <class F>
cublasStatus_t launch(cublasLtHandle_t handle, const Stream& s, const LtProduct& product,
                      const LinearArgs<float, F>& args) {
  return product.run(
      handle, s, {.a = args.w, .b = args.x, .d = args.y, .vector = args.b, .mask = args.mask}, {});
}

/// Whether its ReLU is ours: max(NaN, 0) is NaN, because a weight that is not a number must reach
/// the loss, where it is noticed; and the mask has a 1 where y is positive and nowhere else. Tried
/// with sums that are NaN, that are 0 and with those of this x; the real call overwrites y.
template <class F>
bool rectifies(cublasLtHandle_t handle, Stream& s, const LtProduct& product,
               const LinearArgs<float, F>& args, const char*& fault) {
  const UseLastingMemory no_part_of_a_step(s.device());
  const Tensor x = full_of_nan<F>(s, {args.batch, args.in});
  LinearArgs<float, F> tried = args;
  tried.x = x.data<F>();
  const auto runs = [&] {
    fault = "does not run";
    return launch(handle, s, product, tried) == CUBLAS_STATUS_SUCCESS;
  };
  const auto masks = [&] {
    fault = "has another mask";
    return args.mask == nullptr ||
           mask_fits(s, args.batch, args.out, args.y, args.mask,
                     [](float value, bool bit) { return bit == (value > 0.0F); });
  };
  if (!runs()) {
    return false;
  }
  float first = 0.0F;
  CudaKernels::copy_to_host(s, &first, args.y, sizeof first);
  fault = "loses NaN";
  if (!std::isnan(first) || !masks()) {
    return false;
  }
  x.zero();
  const Tensor no_bias = Tensor::zeros({args.out}, DType::f32, s.device());
  tried.b = args.b == nullptr ? nullptr : no_bias.data<float>();
  if (!runs() || !masks()) {
    return false;
  }
  tried = args;
  return runs() && masks();
}

}  // namespace

template <class F>
bool fused_linear(Stream& s, const LinearArgs<float, F>& args) {
  const bool relu = args.activation == Activation::relu;
  if ((args.b == nullptr && !relu) || args.batch == 0 || args.in == 0 || args.out == 0 ||
      !lt_aligned({args.x, args.w, args.b, args.y, args.mask})) {
    return false;
  }
  auto& plans = lt_plans<LtProduct>(s);
  const LtProduct::Kind kind = product_of(args);
  const auto name = [&] {
    return concat("linear ", kind.precision(), " ", args.batch, "x", args.in, "x", args.out,
                  kind.vector ? ", bias" : "", relu ? ", ReLU" : "", kind.mask ? ", mask" : "");
  };
  const std::optional<LtProduct>& plan =
      plans.of(s, kind, name, "a pass over y", [&](LtProduct product, const char*& fault) {
        const bool usable = relu
                                ? rectifies(plans.handle(), s, product, args, fault)
                                : launch(plans.handle(), s, product, args) == CUBLAS_STATUS_SUCCESS;
        return usable ? std::optional(std::move(product)) : std::nullopt;
      });
  if (plan) {
    CUBLAS_CHECK(launch(plans.handle(), s, *plan, args));
  }
  return plan.has_value();
}

template bool fused_linear(Stream&, const LinearArgs<float>&);
template bool fused_linear(Stream&, const LinearArgs<float, BFloat16>&);

}  // namespace brigade::cuda
