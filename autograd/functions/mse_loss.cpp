#include "autograd/functions/mse_loss.h"

#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {
namespace {

class MseLossNode final : public Node {
 public:
  MseLossNode(Tensor x, Tensor target) : x_(std::move(x)), target_(std::move(target)) {}
  const char* name() const override { return "mse_loss"; }

  void backward(const Tensor& dy, GradWriter& grads) override {
    grads.write(0, [&](Tensor& dx, Scale scale) { ops::mse_backward(x_, target_, dy, scale, dx); });
  }

  void release() override {
    x_ = Tensor();
    target_ = Tensor();
  }

 private:
  Tensor x_, target_;  // equal shapes
};

}  // namespace

Variable mse_loss(const Variable& x, const Tensor& target) {
  Tensor loss = Tensor::empty({}, x.data().dtype(), x.device());
  ops::mse(x.data(), target, loss);
  return record<MseLossNode>(std::move(loss), {x}, x.data(), target);
}

}  // namespace brigade::autograd
