#include "autograd/functions/fused_linear.h"

#include <array>

#include "autograd/functions/linear.h"
#include "autograd/functions/linear_private.h"
#include "autograd/node.h"
#include "core/error.h"
#include "core/ops.h"

namespace brigade::autograd {
namespace {

using ops::Trans;

/// `x`, or a bf16 copy of it.
Tensor factor(const Tensor& x, bool rounds) {
  if (!rounds) {
    return x;
  }
  BRIGADE_CHECK(x.dtype() == DType::f32, "linear: expected f32 to round to bf16, got {}",
                x.dtype());
  Tensor rounded = Tensor::empty(x.shape(), DType::bf16, x.device());
  ops::narrow(x, rounded);
  return rounded;
}

/// Computes dz, which is dy times the activation's derivative, in the dtype of the factors. From dz
/// it computes dW, db and dx.
struct FusedLinearBackward {
  SavedTensor x;  // [..., in], in the dtype of the factors
  Tensor w;       // [out, in], likewise
  Activation activation;
  // [N, out]: what the activation's derivative is computed from. With bf16 it is rounded, which
  // changes ReLU's derivative only where y < 2⁻¹³³. Undefined without an activation.
  Tensor kept;

  void operator()(const Tensor& dy, GradWriter& grads) const {
    Tensor sums = kept.defined() ? Tensor::empty_like(dy, {w.shape()[0]}) : Tensor();
    const Tensor dz = kept.defined() ? before_activation(dy, sums)
                                     : factor(rows_of(dy), w.dtype() == DType::bf16);
    // In this order for the reason that linear.cpp gives.
    grads.write(1, [&](Tensor& dw, Scale scale) {
      ops::gemm(dz, Trans::yes, rows_of(x()), Trans::no, scale, dw);  // dW = dzᵀ x
    });
    grads.write(2, [&](Tensor& db, Scale scale) {
      sums.defined() ? ops::axpby(sums, scale, db) : ops::column_sum(rows_of(dy), scale, db);
    });
    grads.write(0, [&](Tensor& dx, Scale scale) {
      Tensor dx_rows = rows_of(dx);
      ops::gemm(dz, Trans::no, w, Trans::no, scale, dx_rows);  // dx = dz W
    });
  }

 private:
  /// One pass computes dz [N, out] and `sums` [out], the column sums of dz before it is rounded. dz
  /// is written over dy unless it is rounded or something else holds dy.
  Tensor before_activation(const Tensor& dy, Tensor& sums) const {
    const bool in_place = kept.dtype() == dy.dtype() && dy.holds_alone();
    Tensor dz = in_place ? rows_of(dy) : Tensor::empty_like(kept);
    ops::bias_backward(function_of(activation), rows_of(dy), kept, dz, sums);
    return dz;
  }
};

}  // namespace

Variable fused_linear(const Variable& x, const Variable& w, const Variable& b,
                      Activation activation, Precision precision) {
  const bool rounds = precision == Precision::bf16;
  if (activation == Activation::none && !rounds && !x.recomputes()) {
    return linear(x, w, b);
  }
  const Tensor y = empty_output(x.data(), w.data());
  Tensor y_rows = rows_of(y);
  const Tensor x_factor = rounds && x.rounded().defined() ? x.rounded() : factor(x.data(), rounds);
  const Tensor w_factor = factor(w.data(), rounds);
  const bool gelu = activation == Activation::gelu;
  const Tensor z = gelu ? Tensor::empty_like(y_rows) : Tensor();
  ops::linear(rows_of(x_factor), w_factor, b.defined() ? b.data() : Tensor(), y_rows, activation,
              z);
  const SavedTensor saved_x = rounds ? SavedTensor{x_factor, nullptr} : x.saved();
  const Tensor kept = activation == Activation::none ? Tensor() : factor(gelu ? z : y_rows, rounds);
  // In the order of Activation.
  constexpr std::array kNames = {"linear", "linear_relu", "linear_gelu"};
  Variable output = record(kNames.at(static_cast<std::size_t>(activation)), y, {x, w, b},
                           FusedLinearBackward{saved_x, w_factor, activation, kept});
  if (rounds && activation == Activation::relu) {
    output.set_rounded(kept.reshape(y.shape()));
  } else if (gelu && !rounds) {
    output.set_recompute([z, shape = y.shape()] {
      Tensor same = Tensor::empty_like(z);
      ops::unary(UnaryOp::gelu, z, same);
      return same.reshape(shape);
    });
  }
  return output;
}

}  // namespace brigade::autograd
