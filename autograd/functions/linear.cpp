#include "autograd/functions/linear.h"

#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {
namespace {

using ops::Trans;

class LinearNode final : public Node {
 public:
  LinearNode(Tensor x, Tensor w) : x_(std::move(x)), w_(std::move(w)) {}
  const char* name() const override { return "linear"; }

  void backward(const Tensor& dy, Gradients& grads) override {
    // dW and db first: the all-reduce waits for them, while dx is waited for by this thread alone.
    grads.write(kWeight, [&](Tensor& dw, Scale scale) {
      ops::gemm(dy, Trans::yes, x_, Trans::no, scale, dw);
    });
    if (inputs.size() > kBias) {
      grads.write(kBias, [&](Tensor& db, Scale scale) { ops::column_sum(dy, scale, db); });
    }
    grads.write(kInput, [&](Tensor& dx, Scale scale) {
      ops::gemm(dy, Trans::no, w_, Trans::no, scale, dx);
    });
  }

  void release() override {
    x_ = Tensor();
    w_ = Tensor();
  }

 private:
  static constexpr std::size_t kInput = 0;
  static constexpr std::size_t kWeight = 1;
  static constexpr std::size_t kBias = 2;

  Tensor x_;  // [N, in]
  Tensor w_;  // [out, in]
};

}  // namespace

Variable linear(const Variable& x, const Variable& w, const Variable& b) {
  const Tensor bias = b.defined() ? b.data() : Tensor();
  BRIGADE_CHECK(x.shape().rank() == 2 && w.shape().rank() == 2,
                "linear: expected x [N, in] and w [out, in], got ", x.shape(), " and ", w.shape());
  Tensor y = Tensor::empty({x.shape()[0], w.shape()[0]}, x.data().dtype(), x.device());
  ops::linear(x.data(), w.data(), bias, y);
  if (b.defined()) {
    return record<LinearNode>(std::move(y), {x, w, b}, x.data(), w.data());
  }
  return record<LinearNode>(std::move(y), {x, w}, x.data(), w.data());
}

}  // namespace brigade::autograd
