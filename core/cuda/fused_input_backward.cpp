#include "core/cuda/fused_input_backward.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/cuda/cublaslt.h"
#include "core/cuda/trial.h"
#include "core/error.h"
#include "core/runtime/context.h"
#include "core/tensor.h"

namespace brigade::cuda {
namespace {

/// cuBLASLt is column-major, where dx [batch, in] is dxᵀ = Wᵀ dzᵀ: the weight, read so, is Wᵀ
/// already, and a column of dxᵀ is a sample, as is a row of the mask.
template <class F>
LtProduct::Kind product_of(const InputBackwardArgs<float, F>& args) {
  return {.factors = kLtType<F>,
          .a = {.rows = args.in, .cols = args.out},
          .b = {.rows = args.out, .cols = args.batch},
          .d = {.rows = args.in, .cols = args.batch},
          .epilogue = CUBLASLT_EPILOGUE_DRELU,
          .mask = true};
}

template <class F>
cublasStatus_t launch(cublasLtHandle_t handle, const Stream& s, const LtProduct& product,
                      const InputBackwardArgs<float, F>& args) {
  return product.run(handle, s, {.a = args.w, .b = args.dz, .d = args.dx, .mask = args.mask}, {});
}

/// Tried with a mask without a pattern and factors full of ones, whose sums are known, and with a
/// dz full of NaN: a 1 lets it through, a 0 makes it 0, which to multiply by the mask would not.
/// The real call overwrites dx.
template <class F>
bool masks(cublasLtHandle_t handle, Stream& s, const LtProduct& product,
           InputBackwardArgs<float, F> args, const char*& fault) {
  const UseLastingMemory no_part_of_a_step(s.device());
  const Tensor ones = full_of_ones<F>({std::max(args.batch, args.in), args.out}, s.device());
  const Tensor nans = full_of_nan<F>(s, {args.batch, args.out});
  std::vector<std::uint8_t> bits(static_cast<std::size_t>(args.batch * mask_bytes(args.in)));
  std::uint32_t noise = 1;
  for (std::uint8_t& byte : bits) {
    noise = noise * 1664525U + 1013904223U;  // Numerical Recipes, "quick and dirty"
    byte = static_cast<std::uint8_t>(noise >> 24U);
  }
  const Tensor mask = Tensor::from(bits, {args.batch, mask_bytes(args.in)}, s.device());
  args.mask = mask.data<std::uint8_t>();
  args.w = ones.data<F>();
  const auto gives = [&](const Tensor& dz, const auto& passed) {
    args.dz = dz.data<F>();
    fault = "does not run";
    if (launch(handle, s, product, args) != CUBLAS_STATUS_SUCCESS) {
      return false;
    }
    fault = "masks or adds up wrong";
    return mask_fits(s, args.batch, args.in, args.dx, args.mask,
                     [&](float value, bool bit) { return bit ? passed(value) : value == 0.0F; });
  };
  const auto sum = static_cast<float>(args.out);  // exact up to 2^24
  return gives(ones, [sum](float value) { return value == sum; }) &&
         gives(nans, [](float value) { return std::isnan(value); });
}

}  // namespace

template <class F>
bool fused_input_backward(Stream& s, const InputBackwardArgs<float, F>& args) {
  // One output "is not supported by cuBLAS" (NVIDIA's nvmath-python, DReluAuxHandler, K=1), and
  // without a workspace it has read what was not its own (release notes): not worth a trial.
  if (args.mask == nullptr || args.batch == 0 || args.in == 0 || args.out <= 1 ||
      !lt_aligned({args.dz, args.w, args.mask, args.dx})) {
    return false;
  }
  auto& plans = lt_plans<LtProduct>(s);
  const LtProduct::Kind kind = product_of(args);
  const auto name = [&] {
    return concat("input gradient ", kind.precision(), " ", args.batch, "x", args.in, "x",
                  args.out);
  };
  const std::optional<LtProduct>& plan = plans.of(
      s, kind, name, "cuBLAS and a pass over dx", [&](LtProduct product, const char*& fault) {
        return masks(plans.handle(), s, product, args, fault) ? std::optional(std::move(product))
                                                              : std::nullopt;
      });
  if (plan) {
    CUBLAS_CHECK(launch(plans.handle(), s, *plan, args));
  }
  return plan.has_value();
}

template bool fused_input_backward(Stream&, const InputBackwardArgs<float>&);
template bool fused_input_backward(Stream&, const InputBackwardArgs<float, BFloat16>&);

}  // namespace brigade::cuda
