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

class LinearNode final : public Node {
 public:
  /// `x`, `w`: as they were multiplied. `y`: the output if a ReLU was part of it, else undefined.
  LinearNode(Tensor x, Tensor w, Tensor y)
      : x_(std::move(x)), w_(std::move(w)), y_(std::move(y)), relu_(y_.defined()) {}
  const char* name() const override { return relu_ ? "linear_relu" : "linear"; }

  void backward(const Tensor& dy, GradWriter& grads) override {
    const bool bias = inputs.size() > kBias && grads.wanted(kBias);
    // With a ReLU, dz = dy where y > 0, and db, its column sums, comes out of the same pass.
    Tensor sums =
        relu_ && bias ? Tensor::empty({dy.shape()[1]}, dy.dtype(), dy.device()) : Tensor();
    const Tensor dz = relu_ ? masked(dy, sums) : dy;
    const Tensor dz_factor =
        factor(dz, x_.dtype() == DType::bf16 ? Precision::bf16 : Precision::full);
    // dW and db first: the network waits for them, while only this thread waits for dx.
    grads.write(kWeight, [&](Tensor& dw, Scale scale) {
      ops::gemm(dz_factor, Trans::yes, x_, Trans::no, scale, dw);  // dW = dzᵀ x
    });
    if (bias) {
      grads.write(kBias, [&](Tensor& db, Scale scale) {
        sums.defined() ? ops::axpby(sums, scale, db) : ops::column_sum(dz, scale, db);
      });
    }
    grads.write(kInput, [&](Tensor& dx, Scale scale) {
      ops::gemm(dz_factor, Trans::no, w_, Trans::no, scale, dx);  // dx = dz W
    });
  }

  void release() override {
    x_ = Tensor();
    w_ = Tensor();
    y_ = Tensor();
  }

 private:
  /// dz [N, out], written over dy unless something else holds that, and `sums` [out] if defined.
  Tensor masked(const Tensor& dy, Tensor& sums) const {
    Tensor dz = dy.holds_alone() ? dy : Tensor::empty_like(dy);
    if (sums.defined()) {
      ops::relu_bias_backward(dy, y_, dz, sums);
    } else {
      ops::relu_backward(dy, y_, {}, dz);
    }
    return dz;
  }

  static constexpr std::size_t kInput = 0;
  static constexpr std::size_t kWeight = 1;
  static constexpr std::size_t kBias = 2;

  Tensor x_;  // [N, in]
  Tensor w_;  // [out, in]
  Tensor y_;  // [N, out]: its sign is the mask
  bool relu_;
};

Variable activated_linear(const Variable& x, const Variable& w, const Variable& b,
                          Activation activation, Precision precision) {
  BRIGADE_CHECK(x.shape().rank() == 2 && w.shape().rank() == 2,
                "linear: expected x [N, in] and w [out, in], got ", x.shape(), " and ", w.shape());
  const Tensor x_factor = factor(x.data(), precision);
  const Tensor w_factor = factor(w.data(), precision);
  Tensor y = Tensor::empty({x.shape()[0], w.shape()[0]}, x.data().dtype(), x.device());
  ops::linear(x_factor, w_factor, b.defined() ? b.data() : Tensor(), y, activation);
  const Tensor saved = activation == Activation::relu ? y : Tensor();
  return b.defined() ? record<LinearNode>(y, {x, w, b}, x_factor, w_factor, saved)
                     : record<LinearNode>(y, {x, w}, x_factor, w_factor, saved);
}

}  // namespace

Variable linear(const Variable& x, const Variable& w, const Variable& b, Precision precision) {
  return activated_linear(x, w, b, Activation::none, precision);
}

Variable linear_relu(const Variable& x, const Variable& w, const Variable& b, Precision precision) {
  return activated_linear(x, w, b, Activation::relu, precision);
}

}  // namespace brigade::autograd
