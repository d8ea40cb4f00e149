#include "autograd/functions/layer_norm.h"

#include "autograd/node.h"
#include "core/error.h"
#include "core/ops_layers.h"

namespace brigade::autograd {
namespace {

class LayerNormNode final : public Node {
 public:
  LayerNormNode(Tensor x, Tensor weight, Tensor mean, Tensor rstd)
      : x_(std::move(x)),
        weight_(std::move(weight)),
        mean_(std::move(mean)),
        rstd_(std::move(rstd)) {}
  const char* name() const override { return "layer_norm"; }

  void backward(const Tensor& dy, GradWriter& grads) override {
    grads.write(kWeight, [&](Tensor& dw, Scale scale) {
      ops::layer_norm_weight_backward(dy, x_, mean_, rstd_, scale, dw);
    });
    grads.write(kBias, [&](Tensor& db, Scale scale) {
      ops::column_sum(dy.reshape({mean_.numel(), db.numel()}), scale, db);
    });
    grads.write(kInput, [&](Tensor& dx, Scale scale) {
      ops::layer_norm_input_backward(dy, x_, weight_, mean_, rstd_, scale, dx);
    });
  }

  void release() override {
    x_ = Tensor();
    weight_ = Tensor();
    mean_ = Tensor();
    rstd_ = Tensor();
  }

 private:
  static constexpr std::size_t kInput = 0;
  static constexpr std::size_t kWeight = 1;
  static constexpr std::size_t kBias = 2;

  Tensor x_;            // [..., D]
  Tensor weight_;       // [D] or undefined
  Tensor mean_, rstd_;  // [...]
};

Tensor data_of(const Variable& parameter) {
  return parameter.defined() ? parameter.data() : Tensor();
}

}  // namespace

Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double eps) {
  const Tensor& values = x.data();
  BRIGADE_CHECK(values.shape().rank() > 0, "layer_norm: expected x [..., D], got ", x.shape());
  const Shape rows(values.shape().extents().first(values.shape().rank() - 1));
  Tensor y = Tensor::empty_like(values);
  Tensor mean = Tensor::empty(rows, values.dtype(), x.device());
  Tensor rstd = Tensor::empty_like(mean);
  ops::layer_norm(values, data_of(weight), data_of(bias), eps, y, mean, rstd);
  return record<LayerNormNode>(std::move(y), {x, weight, bias}, values, data_of(weight), mean,
                               rstd);
}

}  // namespace brigade::autograd
