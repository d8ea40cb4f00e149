#include "autograd/functions/add.h"

#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {
namespace {

class AddNode final : public Node {
 public:
  const char* name() const override { return "add"; }

  void backward(const Tensor& dy, GradWriter& grads) override {
    for (const std::size_t input : {0U, 1U}) {
      grads.write(input, [&](Tensor& dx, Scale scale) { ops::axpby(dy, scale, dx); });
    }
  }

  void release() override {}
};

}  // namespace

Variable add(const Variable& a, const Variable& b) {
  Tensor y = Tensor::empty_like(a.data());
  ops::add(a.data(), b.data(), y);
  return record<AddNode>(std::move(y), {a, b});
}

}  // namespace brigade::autograd
