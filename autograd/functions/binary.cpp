#include "autograd/functions/binary.h"

#include "autograd/node.h"
#include "core/ops.h"
#include "core/ops_elementwise.h"
#include "core/ops_reduce.h"

namespace brigade::autograd {
namespace {

/// dx = the sum of (dy op v) over the dimensions along which the input was repeated.
void write_gradient(BinaryOp op, const Tensor& dy, const Tensor& v, Scale scale, Tensor& dx) {
  if (dx.shape() == dy.shape()) {
    ops::binary(op, dy, v, scale, dx);
    return;
  }
  Tensor terms = Tensor::empty_like(dy);
  ops::binary(op, dy, v, {}, terms);
  ops::sum_to(terms, scale, dx);
}

Scale negative(Scale scale) {
  return {.alpha = -scale.alpha, .beta = scale.beta};
}

class BinaryNode final : public Node {
 public:
  /// `left`: of mul a, of div a / b. `right`: of mul and div b. Else undefined.
  BinaryNode(BinaryOp op, Tensor left, Tensor right)
      : op_(op), left_(std::move(left)), right_(std::move(right)) {}
  const char* name() const override { return ops::name_of(op_); }

  void backward(const Tensor& dy, GradWriter& grads) override {
    const bool linear = op_ == BinaryOp::add || op_ == BinaryOp::sub;
    grads.write(0, [&](Tensor& da, Scale scale) {
      if (linear) {
        ops::sum_to(dy, scale, da);
      } else {
        write_gradient(op_, dy, right_, scale, da);
      }
    });
    grads.write(1, [&](Tensor& db, Scale scale) {
      if (linear) {
        ops::sum_to(dy, op_ == BinaryOp::add ? scale : negative(scale), db);
      } else if (op_ == BinaryOp::mul) {
        write_gradient(BinaryOp::mul, dy, left_, scale, db);
      } else {  // d(a / b) / db = -(a / b) / b
        Tensor slope = Tensor::empty_like(left_);
        ops::binary(BinaryOp::div, left_, right_, {}, slope);
        write_gradient(BinaryOp::mul, dy, slope, negative(scale), db);
      }
    });
  }

  void release() override {
    left_ = Tensor();
    right_ = Tensor();
  }

 private:
  BinaryOp op_;
  Tensor left_, right_;
};

Variable binary(BinaryOp op, const Variable& a, const Variable& b) {
  const Tensor& left = a.data();
  const Tensor& right = b.data();
  Tensor y = Tensor::empty(ops::broadcast_shape(op, left.shape(), right.shape()), left.dtype(),
                           left.device());
  ops::binary(op, left, right, {}, y);
  // A number or another constant wants no gradient: then backward does not need the other side.
  const bool product = op == BinaryOp::mul || op == BinaryOp::div;
  Tensor kept_left;
  if (product && b.requires_grad()) {
    kept_left = op == BinaryOp::mul ? left : y;
  }
  const bool keep_right = product && (a.requires_grad() || op == BinaryOp::div);
  return record<BinaryNode>(std::move(y), {a, b}, op, std::move(kept_left),
                            keep_right ? right : Tensor());
}

}  // namespace

Variable add(const Variable& a, const Variable& b) {
  return binary(BinaryOp::add, a, b);
}
Variable sub(const Variable& a, const Variable& b) {
  return binary(BinaryOp::sub, a, b);
}
Variable mul(const Variable& a, const Variable& b) {
  return binary(BinaryOp::mul, a, b);
}
Variable div(const Variable& a, const Variable& b) {
  return binary(BinaryOp::div, a, b);
}

Variable scalar_like(double value, const Variable& x) {
  Tensor result = Tensor::empty({}, x.data().dtype(), x.device());
  ops::fill(value, result);
  return Variable(std::move(result));
}

}  // namespace brigade::autograd
