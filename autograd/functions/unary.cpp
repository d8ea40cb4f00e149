#include "autograd/functions/unary.h"

#include "autograd/functions/binary.h"
#include "autograd/node.h"
#include "core/arithmetic.h"
#include "core/ops.h"

namespace brigade::autograd {
namespace {

Variable unary(const char* name, UnaryOp op, const Variable& x) {
  Tensor y = Tensor::empty_like(x.data());
  ops::unary(op, x.data(), y);
  const Tensor& kept = keeps_output(op) ? y : x.data();
  return record(name, y, x, [op, kept](const Tensor& dy, Tensor& dx, Scale scale) {
    ops::unary_backward(op, dy, kept, scale, dx);
  });
}

}  // namespace

Variable relu(const Variable& x) {
  return unary("relu", UnaryOp::relu, x);
}
Variable neg(const Variable& x) {
  return -x;
}
Variable exp(const Variable& x) {
  return unary("exp", UnaryOp::exp, x);
}
Variable log(const Variable& x) {
  return unary("log", UnaryOp::log, x);
}
Variable sqrt(const Variable& x) {
  return unary("sqrt", UnaryOp::sqrt, x);
}
Variable square(const Variable& x) {
  return unary("square", UnaryOp::square, x);
}
Variable tanh(const Variable& x) {
  return unary("tanh", UnaryOp::tanh, x);
}
Variable sigmoid(const Variable& x) {
  return unary("sigmoid", UnaryOp::sigmoid, x);
}
Variable gelu(const Variable& x) {
  return unary("gelu", UnaryOp::gelu, x);
}

}  // namespace brigade::autograd
