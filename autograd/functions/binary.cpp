#include "autograd/functions/binary.h"

#include "autograd/node.h"
#include "core/error.h"
#include "core/ops.h"

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

Tensor computed(BinaryOp op, const Tensor& a, const Tensor& b) {
  Tensor y = Tensor::empty_like(a, ops::broadcast_shape(op, a.shape(), b.shape()));
  ops::binary(op, a, b, {}, y);
  return y;
}

/// y = a + b, or with sign = -1 a - b
Variable sum_or_difference(BinaryOp op, double sign, const Operand& left, const Operand& right) {
  const Variable a = left.beside(ops::name_of(op), right);
  const Variable b = right.beside(ops::name_of(op), left);
  return record(ops::name_of(op), computed(op, a.data(), b.data()), {a, b},
                [sign](const Tensor& dy, GradWriter& grads) {
                  grads.write(0, [&](Tensor& da, Scale scale) { ops::sum_to(dy, scale, da); });
                  grads.write(
                      1, [&](Tensor& db, Scale scale) { ops::sum_to(dy, scale.times(sign), db); });
                });
}

/// `value` if backward needs it. A number or another constant wants no gradient: then backward does
/// not need the other side.
Tensor kept_if(bool needed, const Tensor& value) {
  return needed ? value : Tensor();
}

}  // namespace

Variable Operand::beside(const char* who, const Operand& other) const {
  if (!number_) {
    return variable_;
  }
  BRIGADE_CHECK(!other.number_, "{}: expected at least one Variable, got two numbers", who);
  Tensor scalar = Tensor::empty_like(other.variable_.data(), {});
  ops::fill(*number_, scalar);
  return Variable(std::move(scalar));
}

Variable add(const Operand& a, const Operand& b) {
  return sum_or_difference(BinaryOp::add, 1.0, a, b);
}

Variable sub(const Operand& a, const Operand& b) {
  return sum_or_difference(BinaryOp::sub, -1.0, a, b);
}

Variable mul(const Operand& left, const Operand& right) {
  const Variable a = left.beside("mul", right);
  const Variable b = right.beside("mul", left);
  return record("mul", computed(BinaryOp::mul, a.data(), b.data()), {a, b},
                [a = kept_if(b.requires_grad(), a.data()),
                 b = kept_if(a.requires_grad(), b.data())](const Tensor& dy, GradWriter& grads) {
                  grads.write(0, [&](Tensor& da, Scale scale) {
                    write_gradient(BinaryOp::mul, dy, b, scale, da);
                  });
                  grads.write(1, [&](Tensor& db, Scale scale) {
                    write_gradient(BinaryOp::mul, dy, a, scale, db);
                  });
                });
}

// da = dy / b   db = -dy (y / b)
Variable div(const Operand& left, const Operand& right) {
  const Variable a = left.beside("div", right);
  const Variable b = right.beside("div", left);
  const Tensor y = computed(BinaryOp::div, a.data(), b.data());
  return record(
      "div", y, {a, b},
      [y = kept_if(b.requires_grad(), y), b = b.data()](const Tensor& dy, GradWriter& grads) {
        grads.write(
            0, [&](Tensor& da, Scale scale) { write_gradient(BinaryOp::div, dy, b, scale, da); });
        grads.write(1, [&](Tensor& db, Scale scale) {
          write_gradient(BinaryOp::mul, dy, computed(BinaryOp::div, y, b), scale.times(-1.0), db);
        });
      });
}

}  // namespace brigade::autograd
