#include "autograd/functions/linear.h"

#include "autograd/node.h"
#include "core/error.h"
#include "core/ops.h"

namespace brigade::autograd {
namespace {

using ops::Trans;

/// `x` as the layer multiplies it.
Tensor factor(const Tensor& x, Precision precision) {
  if (precision == Precision::full) {
    return x;
  }
  BRIGADE_CHECK(x.dtype() == DType::f32, "linear: expected f32 to round to bf16, got ", x.dtype());
  Tensor rounded = Tensor::empty(x.shape(), DType::bf16, x.device());
  ops::narrow(x, rounded);
  return rounded;
}

/// [..., features] as [N, features].
Tensor rows_of(const Tensor& x) {
  const std::size_t last = x.shape().rank() - 1;
  return x.reshape({x.shape().with_extent(last, 1).numel(), x.shape()[last]});
}

struct LinearBackward {
  SavedTensor x;  // [..., in], as it was multiplied
  Tensor w;       // [out, in], as it was multiplied
  Activation activation;
  Tensor kept;  // [N, out]: what the activation's derivative is computed from; undefined for none.
      // With bf16 it is rounded, which changes ReLU's derivative only where y < 2⁻¹³³

  void operator()(const Tensor& dy, GradWriter& grads) const {
    // With an activation, dz is dy times its derivative. One pass computes dz, as it is multiplied,
    // and db, its column sums.
    const bool rounds = w.dtype() == DType::bf16;
    Tensor sums = kept.defined() && (rounds || grads.wanted(kBias))
                      ? Tensor::empty_like(dy, {kept.shape()[1]})
                      : Tensor();
    const Tensor dz = kept.defined()
                          ? before_activation(dy, sums)
                          : factor(rows_of(dy), rounds ? Precision::bf16 : Precision::full);
    // dW and db first: the network waits for them, while only this thread waits for dx.
    grads.write(kWeight, [&](Tensor& dw, Scale scale) {
      ops::gemm(dz, Trans::yes, rows_of(x()), Trans::no, scale, dw);  // dW = dzᵀ x
    });
    grads.write(kBias, [&](Tensor& db, Scale scale) {
      sums.defined() ? ops::axpby(sums, scale, db) : ops::column_sum(rows_of(dy), scale, db);
    });
    grads.write(kInput, [&](Tensor& dx, Scale scale) {
      Tensor rows = rows_of(dx);
      ops::gemm(dz, Trans::no, w, Trans::no, scale, rows);  // dx = dz W
    });
  }

 private:
  /// dz [N, out], written over dy unless it is rounded or something else holds dy, and `sums` [out]
  /// if defined.
  Tensor before_activation(const Tensor& dy, Tensor& sums) const {
    const bool in_place = kept.dtype() == dy.dtype() && dy.holds_alone();
    Tensor dz = in_place ? rows_of(dy) : Tensor::empty_like(kept);
    const UnaryOp op = function_of(activation);
    if (sums.defined()) {
      ops::bias_backward(op, rows_of(dy), kept, dz, sums);
    } else {
      ops::unary_backward(op, rows_of(dy), kept, {}, dz);
    }
    return dz;
  }

  static constexpr std::size_t kInput = 0;
  static constexpr std::size_t kWeight = 1;
  static constexpr std::size_t kBias = 2;
};

Variable activated_linear(const char* name, const Variable& x, const Variable& w, const Variable& b,
                          Activation activation, Precision precision) {
  BRIGADE_CHECK(x.shape().rank() > 0 && w.shape().rank() == 2,
                "linear: expected x [..., in] and w [out, in], got ", x.shape(), " and ",
                w.shape());
  const bool rounds = precision == Precision::bf16;
  const Tensor x_factor =
      rounds && x.rounded().defined() ? x.rounded() : factor(x.data(), precision);
  const Tensor w_factor = factor(w.data(), precision);
  const std::size_t last = x.shape().rank() - 1;
  const Tensor y = Tensor::empty_like(x.data(), x.shape().with_extent(last, w.shape()[0]));
  Tensor y_rows = rows_of(y);
  const bool gelu = activation == Activation::gelu;
  const Tensor z = gelu ? Tensor::empty_like(y_rows) : Tensor();
  ops::linear(rows_of(x_factor), w_factor, b.defined() ? b.data() : Tensor(), y_rows, activation,
              z);
  const SavedTensor saved_x = rounds ? SavedTensor{x_factor, nullptr} : x.saved();
  const Tensor kept =
      activation == Activation::none ? Tensor() : factor(gelu ? z : y_rows, precision);
  Variable output = record(name, y, {x, w, b}, LinearBackward{saved_x, w_factor, activation, kept});
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

}  // namespace

Variable linear(const Variable& x, const Variable& w, const Variable& b, Precision precision) {
  return activated_linear("linear", x, w, b, Activation::none, precision);
}

Variable linear_relu(const Variable& x, const Variable& w, const Variable& b, Precision precision) {
  return activated_linear("linear_relu", x, w, b, Activation::relu, precision);
}

Variable linear_gelu(const Variable& x, const Variable& w, const Variable& b, Precision precision) {
  return activated_linear("linear_gelu", x, w, b, Activation::gelu, precision);
}

}  // namespace brigade::autograd
