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

struct LinearBackward {
  Tensor x;  // [N, in], as it was multiplied
  Tensor w;  // [out, in], as it was multiplied
  Tensor y;  // [N, out] if a ReLU was part of it, whose mask is the sign of y; else undefined

  void operator()(const Tensor& dy, GradWriter& grads) const {
    // With a ReLU, dz = dy where y > 0, and db, its column sums, comes out of the same pass.
    Tensor sums =
        y.defined() && grads.wanted(kBias) ? Tensor::empty_like(dy, {dy.shape()[1]}) : Tensor();
    const Tensor dz = y.defined() ? masked(dy, sums) : dy;
    const Tensor dz_factor =
        factor(dz, x.dtype() == DType::bf16 ? Precision::bf16 : Precision::full);
    // dW and db first: the network waits for them, while only this thread waits for dx.
    grads.write(kWeight, [&](Tensor& dw, Scale scale) {
      ops::gemm(dz_factor, Trans::yes, x, Trans::no, scale, dw);  // dW = dzᵀ x
    });
    grads.write(kBias, [&](Tensor& db, Scale scale) {
      sums.defined() ? ops::axpby(sums, scale, db) : ops::column_sum(dz, scale, db);
    });
    grads.write(kInput, [&](Tensor& dx, Scale scale) {
      ops::gemm(dz_factor, Trans::no, w, Trans::no, scale, dx);  // dx = dz W
    });
  }

 private:
  /// dz [N, out], written over dy unless something else holds that, and `sums` [out] if defined.
  Tensor masked(const Tensor& dy, Tensor& sums) const {
    Tensor dz = dy.holds_alone() ? dy : Tensor::empty_like(dy);
    if (sums.defined()) {
      ops::relu_bias_backward(dy, y, dz, sums);
    } else {
      ops::unary_backward(UnaryOp::relu, dy, y, {}, dz);
    }
    return dz;
  }

  static constexpr std::size_t kInput = 0;
  static constexpr std::size_t kWeight = 1;
  static constexpr std::size_t kBias = 2;
};

Variable activated_linear(const Variable& x, const Variable& w, const Variable& b,
                          Activation activation, Precision precision) {
  BRIGADE_CHECK(x.shape().rank() == 2 && w.shape().rank() == 2,
                "linear: expected x [N, in] and w [out, in], got ", x.shape(), " and ", w.shape());
  const Tensor x_factor = factor(x.data(), precision);
  const Tensor w_factor = factor(w.data(), precision);
  Tensor y = Tensor::empty_like(x.data(), {x.shape()[0], w.shape()[0]});
  ops::linear(x_factor, w_factor, b.defined() ? b.data() : Tensor(), y, activation);
  const bool rectified = activation == Activation::relu;
  return record(rectified ? "linear_relu" : "linear", y, {x, w, b},
                LinearBackward{x_factor, w_factor, rectified ? y : Tensor()});
}

}  // namespace

Variable linear(const Variable& x, const Variable& w, const Variable& b, Precision precision) {
  return activated_linear(x, w, b, Activation::none, precision);
}

Variable linear_relu(const Variable& x, const Variable& w, const Variable& b, Precision precision) {
  return activated_linear(x, w, b, Activation::relu, precision);
}

}  // namespace brigade::autograd
