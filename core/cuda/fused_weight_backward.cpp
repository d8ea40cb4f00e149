#include "core/cuda/fused_weight_backward.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/cuda/cublaslt.h"
#include "core/error.h"
#include "core/runtime/context.h"
#include "core/tensor.h"

namespace brigade::cuda {
namespace {

/// Whether the epilogue's sums are multiplied by alpha as the product is.
enum class Sums { plain, scaled };

struct Plan {
  LtProduct product;
  Sums sums;
};

/// cuBLASLt is column-major, where dw [out, in] is dwᵀ = xᵀ dz: x is A, dz is B, stored transposed.
/// Both are summed over the batch, so it is BGRADB that sums dz to one number per column of dwᵀ.
LtProduct::Kind product_of(const WeightBackwardArgs<float>& args) {
  return {.a = {.rows = args.in, .cols = args.batch},
          .b = {.rows = args.out, .cols = args.batch, .op = CUBLAS_OP_T},
          .d = {.rows = args.in, .cols = args.out},
          .epilogue = CUBLASLT_EPILOGUE_BGRADB,
          .vector = true};
}

/// A product tried on numbers whose sums are known. The manual does not say whether alpha reaches
/// db, nor whether TF32 rounds what is only summed and not multiplied.
class Trial {
 public:
  Trial(Stream& s, const WeightBackwardArgs<float>& shape, const char*& fault)
      : s_(s),
        shape_(shape),
        fault_(fault),
        no_part_of_a_step_(s.device()),
        dz_(Tensor::empty({shape.batch, shape.out}, DType::f32, s.device())),
        x_(Tensor::empty({shape.batch, shape.in}, DType::f32, s.device())),
        dw_(Tensor::empty({shape.out, shape.in}, DType::f32, s.device())),
        db_(Tensor::empty({shape.out}, DType::f32, s.device())) {}

  /// Nothing if a sum is wrong, or there is none.
  std::optional<Sums> of(cublasLtHandle_t handle, const LtProduct& product) {
    // All ones: dw = alpha N, and db tells what it has of alpha. Exact, in f32, up to N = 2^24.
    const auto batch = static_cast<float>(shape_.batch);
    CudaKernels::fill(s_, x_.numel(), 1.0F, x_.data<float>());
    CudaKernels::fill(s_, dz_.numel(), 1.0F, dz_.data<float>());
    if (!runs(handle, product, 0.0) || !dw_is(kAlpha * batch)) {
      return std::nullopt;
    }
    const bool scaled = db_is(kAlpha * batch);
    if (!scaled && !db_is(batch)) {
      return std::nullopt;
    }
    // One row of a number that TF32 lacks: db must have all of it. And dw is added to.
    CudaKernels::fill(s_, dz_.numel(), 0.0F, dz_.data<float>());
    CudaKernels::fill(s_, shape_.out, kFine, dz_.data<float>());
    if (!runs(handle, product, 1.0) || !dw_is(kAlpha * (batch + 1.0F)) ||
        !db_is(scaled ? kAlpha * kFine : kFine)) {
      return std::nullopt;
    }
    return scaled ? Sums::scaled : Sums::plain;
  }

 private:
  static constexpr float kAlpha = 0.5F;
  static constexpr float kFine = 1.0F + 0x1p-12F;

  bool runs(cublasLtHandle_t handle, const LtProduct& product, double beta) {
    const cublasStatus_t status = product.run(
        handle, s_, {.a = x_.bytes(), .b = dz_.bytes(), .d = dw_.bytes(), .vector = db_.bytes()},
        {.alpha = kAlpha, .beta = beta});
    fault_ = status == CUBLAS_STATUS_SUCCESS ? "adds up wrong" : "does not run";
    return status == CUBLAS_STATUS_SUCCESS;
  }

  /// Its first and its last element; kFine may have been rounded.
  bool dw_is(float expected) {
    float first = 0.0F;
    float last = 0.0F;
    CudaKernels::copy_to_host(s_, &first, dw_.data<float>(), sizeof first);
    CudaKernels::copy_to_host(s_, &last, dw_.data<float>() + dw_.numel() - 1, sizeof last);
    return std::abs(first - expected) < 0.25F && std::abs(last - expected) < 0.25F;
  }

  bool db_is(float expected) {
    std::vector<float> sums(static_cast<std::size_t>(shape_.out));
    CudaKernels::copy_to_host(s_, sums.data(), db_.data<float>(), db_.nbytes());
    return std::all_of(sums.begin(), sums.end(), [=](float sum) { return sum == expected; });
  }

  Stream& s_;
  const WeightBackwardArgs<float>& shape_;
  const char*& fault_;
  UseLastingMemory no_part_of_a_step_;
  Tensor dz_, x_, dw_, db_;
};

/// The epilogue overwrites, and has its own opinion of alpha: another scale takes one more pass,
/// over `out` numbers and not N * out.
void run(cublasLtHandle_t handle, Stream& s, const Plan& plan,
         const WeightBackwardArgs<float>& args) {
  const double sums_alpha = plan.sums == Sums::scaled ? args.dw_scale.alpha : 1.0;
  const Scale rest{.alpha = args.db_scale.alpha / sums_alpha, .beta = args.db_scale.beta};
  const bool adds = rest.beta != 0.0;
  const Tensor beside =
      adds ? Tensor::empty({args.out}, DType::f32, s.device()) : Tensor();  // db is still read
  float* const sums = adds ? beside.data<float>() : args.db;
  CUBLAS_CHECK(plan.product.run(
      handle, s, {.a = args.x, .b = args.dz, .d = args.dw, .vector = sums}, args.dw_scale));
  if (adds || rest.alpha != 1.0) {
    CudaKernels::axpby(s, args.out, sums, rest, args.db);
  }
}

}  // namespace

bool fused_weight_backward(Stream& s, const WeightBackwardArgs<float>& args) {
  if (args.batch == 0 || args.in == 0 || args.out == 0 ||
      !lt_aligned({args.dz, args.x, args.dw, args.db})) {
    return false;
  }
  auto& plans = lt_plans<Plan>(s);
  const LtProduct::Kind kind = product_of(args);
  const auto name = [&] {
    return concat("weight gradient ", kind.precision(), " ", args.batch, "x", args.in, "x",
                  args.out);
  };
  // The plan comes first: a step that is captured with other scales than its rehearsal finds it.
  const std::optional<Plan>& plan = plans.of(
      s, kind, name, "cuBLAS and a column sum", [&](LtProduct product, const char*& fault) {
        const std::optional<Sums> sums = Trial(s, args, fault).of(plans.handle(), product);
        return sums ? std::optional(Plan{.product = std::move(product), .sums = *sums})
                    : std::nullopt;
      });
  if (!plan || args.dw_scale.alpha == 0.0) {
    return false;
  }
  run(plans.handle(), s, *plan, args);
  return true;
}

}  // namespace brigade::cuda
