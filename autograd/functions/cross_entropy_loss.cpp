#include "autograd/functions/cross_entropy_loss.h"

#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {
namespace {

class CrossEntropyLossNode final : public Node {
 public:
  CrossEntropyLossNode(Tensor softmax, Tensor labels)
      : softmax_(std::move(softmax)), labels_(std::move(labels)) {}
  const char* name() const override { return "cross_entropy_loss"; }

  void backward(const Tensor& dy, GradWriter& grads) override {
    grads.write(0, [&](Tensor& dx, Scale scale) {
      ops::cross_entropy_backward(softmax_, labels_, dy, scale, dx);
    });
  }

  void release() override {
    softmax_ = Tensor();
    labels_ = Tensor();
  }

 private:
  Tensor softmax_;  // [N, classes]
  Tensor labels_;   // i64 [N]
};

}  // namespace

Variable cross_entropy_loss(const Variable& x, const Tensor& labels) {
  Tensor loss = Tensor::empty({}, x.data().dtype(), x.device());
  Tensor softmax = Tensor::empty_like(x.data());
  ops::cross_entropy(x.data(), labels, softmax, loss);
  return record<CrossEntropyLossNode>(std::move(loss), {x}, std::move(softmax), labels);
}

}  // namespace brigade::autograd
