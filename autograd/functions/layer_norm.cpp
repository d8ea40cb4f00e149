#include "autograd/functions/layer_norm.h"

#include "autograd/node.h"
#include "core/error.h"
#include "core/ops.h"

namespace brigade::autograd {
namespace {

Tensor data_of(const Variable& parameter) {
  return parameter.defined() ? parameter.data() : Tensor();
}

}  // namespace

Variable layer_norm(const Variable& input, const Variable& weight, const Variable& bias,
                    double eps) {
  const Tensor& x = input.data();
  const Tensor w = data_of(weight);
  const Tensor b = data_of(bias);
  BRIGADE_CHECK(x.shape().rank() > 0, "layer_norm: expected x [..., D], got {}", x.shape());
  const Shape rows(x.shape().extents().first(x.shape().rank() - 1));
  Tensor y = Tensor::empty_like(x);
  Tensor mean = Tensor::empty_like(x, rows);
  Tensor rstd = Tensor::empty_like(x, rows);
  ops::layer_norm(x, w, b, eps, y, mean, rstd);
  const auto recompute = [x, w, b, eps, mean, rstd]() mutable {
    Tensor same = Tensor::empty_like(x);
    ops::layer_norm(x, w, b, eps, same, mean, rstd);  // mean and rstd with the same bits, too
    return same;
  };
  Variable output = record("layer_norm", y, {input, weight, bias},
                           [x, w, mean, rstd](const Tensor& dy, GradWriter& grads) {
                             // The parameters first: the network waits for them.
                             grads.write(1, [&](Tensor& dw, Scale scale) {
                               ops::layer_norm_weight_backward(dy, x, mean, rstd, scale, dw);
                             });
                             grads.write(2, [&](Tensor& db, Scale scale) {
                               ops::column_sum(dy.reshape({mean.numel(), db.numel()}), scale, db);
                             });
                             grads.write(0, [&](Tensor& dx, Scale scale) {
                               ops::layer_norm_input_backward(dy, x, w, mean, rstd, scale, dx);
                             });
                           });
  output.set_recompute(recompute);
  return output;
}

}  // namespace brigade::autograd
