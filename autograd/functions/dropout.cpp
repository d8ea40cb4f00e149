#include "autograd/functions/dropout.h"

#include "autograd/node.h"
#include "core/error.h"
#include "core/ops_layers.h"

namespace brigade::autograd {
namespace {

class DropoutNode final : public Node {
 public:
  explicit DropoutNode(DropoutArgs args) : args_(args) {}
  const char* name() const override { return "dropout"; }

  void backward(const Tensor& dy, GradWriter& grads) override {
    grads.write(0, [&](Tensor& dx, Scale scale) { ops::dropout(dy, args_, scale, dx); });
  }

  void release() override {}

 private:
  DropoutArgs args_;
};

}  // namespace

Variable dropout(const Variable& x, double p, bool training, RandomStream stream) {
  BRIGADE_CHECK(p >= 0.0 && p < 1.0, "dropout: expected p in [0, 1), got ", p);
  if (!training || p == 0.0) {
    return x;
  }
  const DropoutArgs args{.stream = stream, .p = p};
  Tensor y = Tensor::empty_like(x.data());
  ops::dropout(x.data(), args, {}, y);
  return record<DropoutNode>(std::move(y), {x}, args);
}

}  // namespace brigade::autograd
