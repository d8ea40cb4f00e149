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

/// How often backward has changed its values.
std::size_t updates_of(const std::shared_ptr<GradState>& input) {
  return input ? input->updates : 0;
}
std::size_t updates_of(const Variable& input) {
  return input.requires_grad() ? input.grad_state()->updates : 0;
}

/// Memory for y [N, out]: if it fits there, that of W's gradient, as long as that is empty. y is
/// read for the last time just before dW is written: by the layer behind this one for its dW, then
/// for the mask of dy. Where W's gradient is accumulated or has no memory yet, y gets its own, and
/// on a CPU also where backward updates W at once: pages that nobody touches take no memory there.
/// To be called when W can be read: then nobody uses its gradient any more.
Tensor empty_output(const Variable& w, const Shape& shape, DType dtype) {
  if (grad_enabled() && w.requires_grad()) {
    GradState& state = *w.grad_state();
    const bool untouched = state.in_place && !state.device.is_cuda();
    if (state.grad.defined() && !state.filled && !untouched && state.dtype == dtype) {
      if (Tensor lent = state.loan.lend(state.grad, shape); lent.defined()) {
        return lent;
      }
    }
  }
  return Tensor::empty(shape, dtype, w.device());
}

class LinearNode final : public Node {
 public:
  /// `x` and `w` as they were multiplied. `mask`: of the ReLU behind the sums; undefined without.
  /// `updates`: the sum of updates_of() the two then. Both only grow, so while the sum is the same
  /// neither has changed.
  LinearNode(Tensor x, Tensor w, ReluMask mask, std::size_t updates)
      : x_(std::move(x)),
        w_(std::move(w)),
        mask_(std::move(mask)),
        relu_(mask_.y.defined()),
        updates_(updates) {}
  const char* name() const override { return relu_ ? "linear_relu" : "linear"; }

  void backward(const Tensor& dy, GradWriter& grads) override {
    check_inputs_unchanged();
    const bool bias = inputs.size() > kBias && grads.wanted(kBias);
    // One kernel for dW and db. Not with bf16: there dW is of a rounded dz, db never is.
    const bool together = bias && grads.wanted(kWeight) && precision() == Precision::full &&
                          ops::sums_bias_with_weight(dy);
    Tensor dz_sums;  // [out]
    const Tensor dz = masked(dy, grads, bias && !together, dz_sums);
    if (!grads.graph_is_kept()) {
      mask_ = ReluMask();  // y, which may lie where dW is to be written
      released = true;     // also if something fails from here on
    }
    const Tensor dzf = factor(dz, precision());
    // dW and db first: the all-reduce waits for them, while dx is waited for by this thread alone.
    // Unless writing dW is the update of W, which dx still reads.
    const bool dx_first = grads.updates(kWeight);
    if (dx_first) {
      if (grads.updates(kInput)) {
        x_ = x_.clone();  // a parameter as well: dx updates it, and dW needs its old values
      }
      write_dx(dzf, grads);
    }
    if (together) {
      write_dw_and_db(dz, grads);
    } else {
      grads.write(kWeight, [&](Tensor& dw, Scale scale) {
        ops::gemm(dzf, Trans::yes, x_, Trans::no, scale, dw);
      });
      if (bias) {
        write_db(dz, dz_sums, grads);
      }
    }
    if (!dx_first) {
      write_dx(dzf, grads);
    }
  }

  const ReluMask* relu_mask() const override { return mask_.bits.defined() ? &mask_ : nullptr; }

  void release() override {
    x_ = Tensor();
    w_ = Tensor();
    mask_ = ReluMask();
  }

 private:
  void check_inputs_unchanged() const {
    BRIGADE_CHECK(updates_of(inputs[kInput]) + updates_of(inputs[kWeight]) == updates_, name(),
                  ": another backward has updated '", inputs[kWeight] ? inputs[kWeight]->name : "x",
                  "' since forward has read it; with updates in backward each backward needs a "
                  "forward of its own");
  }

  /// dz [N, out], the gradient before the ReLU, in the place of dy unless a hook has kept that. On
  /// request, where a mask is to be applied, the sums of its columns as well, in the same pass.
  Tensor masked(const Tensor& dy, const GradWriter& grads, bool sums_wanted, Tensor& sums) const {
    if (!relu_ || grads.dy_is_masked()) {
      return dy;
    }
    Tensor dz = dy.holds_alone() ? dy : Tensor::empty_like(dy);
    if (sums_wanted) {
      sums = Tensor::empty({dy.shape()[1]}, dy.dtype(), dy.device());
      ops::relu_bias_backward(dy, mask_.y, dz, sums);
    } else {
      ops::relu_backward(dy, mask_.y, {}, dz);
    }
    return dz;
  }

  void write_dx(const Tensor& dzf, GradWriter& grads) const {
    const ReluMask* mask = grads.take_mask(kInput);
    grads.write(kInput, [&](Tensor& dx, Scale scale) {
      if (mask != nullptr) {
        ops::linear_input_backward(dzf, w_, mask->y, mask->bits, dx);
      } else {
        ops::gemm(dzf, Trans::no, w_, Trans::no, scale, dx);
      }
    });
  }

  /// One write inside the other: dW is delivered, and its listeners told, before db, as where two
  /// kernels compute them.
  void write_dw_and_db(const Tensor& dz, GradWriter& grads) const {
    grads.write(kBias, [&](Tensor& db, Scale db_scale) {
      grads.write(kWeight, [&](Tensor& dw, Scale dw_scale) {
        ops::linear_weight_backward(dz, x_, dw_scale, dw, db_scale, db);
      });
    });
  }

  /// `sums`: of the columns of dz, if they are there already.
  static void write_db(const Tensor& dz, const Tensor& sums, GradWriter& grads) {
    grads.write(kBias, [&](Tensor& db, Scale scale) {
      if (sums.defined()) {
        ops::axpby(sums, scale, db);
      } else {
        ops::column_sum(dz, scale, db);
      }
    });
  }

  Precision precision() const {
    return x_.dtype() == DType::bf16 ? Precision::bf16 : Precision::full;
  }

  static constexpr std::size_t kInput = 0;
  static constexpr std::size_t kWeight = 1;
  static constexpr std::size_t kBias = 2;

  Tensor x_;       // [N, in]
  Tensor w_;       // [out, in]
  ReluMask mask_;  // [N, out]
  bool relu_;
  std::size_t updates_;
};

Variable activated_linear(const Variable& x, const Variable& w, const Variable& b,
                          Activation activation, Precision precision) {
  const Tensor bias = b.defined() ? b.data() : Tensor();
  BRIGADE_CHECK(x.shape().rank() == 2 && w.shape().rank() == 2,
                "linear: expected x [N, in] and w [out, in], got ", x.shape(), " and ", w.shape());
  const Tensor xf = factor(x.data(), precision);
  const Tensor wf = factor(w.data(), precision);
  Tensor y = empty_output(w, {x.shape()[0], w.shape()[0]}, x.data().dtype());
  ReluMask mask;
  if (activation == Activation::relu) {
    const bool wanted = x.requires_grad() || w.requires_grad() || b.requires_grad();
    mask = {.y = y, .bits = wanted && grad_enabled() ? ops::empty_relu_mask(y) : Tensor()};
  }
  ops::linear(xf, wf, bias, y, activation, mask.bits);
  const std::size_t updates = updates_of(x) + updates_of(w);
  if (b.defined()) {
    return record<LinearNode>(std::move(y), {x, w, b}, xf, wf, mask, updates);
  }
  return record<LinearNode>(std::move(y), {x, w}, xf, wf, mask, updates);
}

}  // namespace

Variable linear(const Variable& x, const Variable& w, const Variable& b, Precision precision) {
  return activated_linear(x, w, b, Activation::none, precision);
}

Variable linear_relu(const Variable& x, const Variable& w, const Variable& b, Precision precision) {
  return activated_linear(x, w, b, Activation::relu, precision);
}

}  // namespace brigade::autograd
