#include "autograd/functions/softmax.h"

#include "autograd/functions/binary.h"
#include "autograd/functions/reduce.h"
#include "autograd/functions/unary.h"
#include "autograd/node.h"
#include "core/ops_elementwise.h"
#include "core/ops_reduce.h"

namespace brigade::autograd {
namespace {

// Both are arithmetic on constants, which records nothing, and one node whose backward needs only
// y. Composed of recorded functions they would keep five tensors.

/// softmax:       dx = y (dy - Σ y dy)
/// log_softmax:   dx = dy - exp(y) Σ dy
class SoftmaxNode final : public Node {
 public:
  SoftmaxNode(bool log, Tensor y, std::int64_t dim) : log_(log), y_(std::move(y)), dim_(dim) {}
  const char* name() const override { return log_ ? "log_softmax" : "softmax"; }

  void backward(const Tensor& gradient, GradWriter& grads) override {
    const Variable y(y_);
    const Variable dy(gradient);
    grads.write(0, [&](Tensor& dx, Scale scale) {
      if (log_) {
        const Variable other = exp(y) * sum(dy, dim_, /*keepdim=*/true);
        write_scaled(BinaryOp::sub, dy, other, scale, dx);
      } else {
        const Variable other = dy - sum(y * dy, dim_, /*keepdim=*/true);
        write_scaled(BinaryOp::mul, y, other, scale, dx);
      }
    });
  }

  void release() override { y_ = Tensor(); }

 private:
  static void write_scaled(BinaryOp op, const Variable& a, const Variable& b, Scale scale,
                           Tensor& dx) {
    ops::binary(op, a.data(), b.data(), scale, dx);
  }

  bool log_;
  Tensor y_;
  std::int64_t dim_;
};

}  // namespace

Variable softmax(const Variable& x, std::int64_t dim) {
  ops::reduce_shape("softmax", x.shape(), dim);  // for an error that names this function
  const Variable constant(x.data());
  const Variable powers = exp(constant - max(constant, dim, /*keepdim=*/true));
  const Tensor y = (powers / sum(powers, dim, /*keepdim=*/true)).data();
  return record<SoftmaxNode>(y, {x}, false, y, dim);
}

Variable log_softmax(const Variable& x, std::int64_t dim) {
  ops::reduce_shape("log_softmax", x.shape(), dim);
  const Variable constant(x.data());
  const Variable shifted = constant - max(constant, dim, /*keepdim=*/true);
  const Tensor y = (shifted - log(sum(exp(shifted), dim, /*keepdim=*/true))).data();
  return record<SoftmaxNode>(y, {x}, true, y, dim);
}

}  // namespace brigade::autograd
