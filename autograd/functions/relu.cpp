#include "autograd/functions/relu.h"

#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {
namespace {

class ReluNode final : public Node {
 public:
  explicit ReluNode(Tensor y) : y_(std::move(y)) {}
  const char* name() const override { return "relu"; }

  void backward(const Tensor& dy, GradWriter& grads) override {
    grads.write(0, [&](Tensor& dx, Scale scale) { ops::relu_backward(dy, y_, scale, dx); });
  }

  void release() override { y_ = Tensor(); }

 private:
  Tensor y_;  // the output: its sign is the mask
};

}  // namespace

Variable relu(const Variable& x) {
  Tensor y = Tensor::empty_like(x.data());
  ops::relu(x.data(), y);
  return record<ReluNode>(y, {x}, y);
}

}  // namespace brigade::autograd
