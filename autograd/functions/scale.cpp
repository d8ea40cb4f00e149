#include "autograd/functions/scale.h"

#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {
namespace {

class ScaleNode final : public Node {
 public:
  explicit ScaleNode(double factor) : factor_(factor) {}
  const char* name() const override { return "scale"; }

  void backward(const Tensor& dy, GradWriter& grads) override {
    grads.write(0, [&](Tensor& dx, Scale scale) {
      ops::axpby(dy, {.alpha = factor_ * scale.alpha, .beta = scale.beta}, dx);
    });
  }

  void release() override {}

 private:
  double factor_;
};

}  // namespace

Variable scale(const Variable& x, double factor) {
  Tensor y = Tensor::empty_like(x.data());
  ops::axpby(x.data(), {.alpha = factor, .beta = 0.0}, y);
  return record<ScaleNode>(std::move(y), {x}, factor);
}

}  // namespace brigade::autograd
