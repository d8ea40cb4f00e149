#pragma once

#include "core/kernel_args.h"
#include "core/tensor.h"

/// Functions of each element, under the rules of core/ops.h: checked, into memory of the caller.
namespace brigade::ops {

/// y = op(x), equal shapes.
void unary(UnaryOp op, const Tensor& x, Tensor& y);
/// dx = dy op'(x). `kept`: the output if keeps_output(op) (core/arithmetic.h), else x.
void unary_backward(UnaryOp op, const Tensor& dy, const Tensor& kept, Scale scale, Tensor& dx);

/// "add", "sub", "mul" or "div".
const char* name_of(BinaryOp op);
/// The shape of `a op b` by NumPy's rule. Aligned at the last one, two extents are equal or one of
/// them is 1, which is then repeated. Error otherwise.
Shape broadcast_shape(BinaryOp op, const Shape& a, const Shape& b);
/// y = alpha (a op b) + beta y.   y: broadcast_shape(op, a, b)
void binary(BinaryOp op, const Tensor& a, const Tensor& b, Scale scale, Tensor& y);

}  // namespace brigade::ops
