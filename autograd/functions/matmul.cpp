#include "autograd/functions/matmul.h"

#include <algorithm>

#include "autograd/node.h"
#include "core/error.h"
#include "core/ops_layers.h"

namespace brigade::autograd {
namespace {

using ops::Trans;

class MatmulNode final : public Node {
 public:
  MatmulNode(Tensor a, Tensor b, Shape y) : a_(std::move(a)), b_(std::move(b)), y_(y) {}
  const char* name() const override { return "matmul"; }

  void backward(const Tensor& dy, GradWriter& grads) override {
    const Tensor dy_matrices = dy.reshape(y_);
    grads.write(1, [&](Tensor& db, Scale scale) {
      ops::matmul(a_, Trans::yes, dy_matrices, Trans::no, scale, db);
    });
    grads.write(0, [&](Tensor& da, Scale scale) {
      Tensor da_matrices = da.reshape(a_.shape());
      ops::matmul(dy_matrices, Trans::no, b_, Trans::yes, scale, da_matrices);
    });
  }

  void release() override {
    a_ = Tensor();
    b_ = Tensor();
  }

 private:
  Tensor a_;  // [rows, k] for a 2-D b, else [..., m, k]
  Tensor b_;
  Shape y_;  // [rows, n], else [..., m, n]
};

bool fit(const Shape& a, const Shape& b) {
  if (a.rank() < 2 || b.rank() < 2 || a[a.rank() - 1] != b[b.rank() - 2]) {
    return false;
  }
  return b.rank() == 2 ||
         std::ranges::equal(a.extents().first(a.rank() - 2), b.extents().first(b.rank() - 2));
}

}  // namespace

Variable matmul(const Variable& a, const Variable& b) {
  const Shape& left = a.shape();
  const Shape& right = b.shape();
  BRIGADE_CHECK(fit(left, right),
                "matmul: expected a [..., m, k] and b [k, n], or b [..., k, n] with the leading "
                "dimensions of a, got ",
                left, " and ", right, "; reshape to one of these");
  const std::size_t last = left.rank() - 1;
  const std::int64_t n = right[right.rank() - 1];
  Tensor y = Tensor::empty(left.with_extent(last, n), a.data().dtype(), a.device());
  // With one b the matrices of a are the rows of one large matrix: a single product.
  Tensor factor = a.data();
  Tensor product = y;
  if (right.rank() == 2) {
    const std::int64_t rows = left.with_extent(last, 1).numel();
    factor = factor.reshape({rows, right[0]});
    product = product.reshape({rows, n});
  }
  ops::matmul(factor, Trans::no, b.data(), Trans::no, {}, product);
  return record<MatmulNode>(std::move(y), {a, b}, factor, b.data(), product.shape());
}

}  // namespace brigade::autograd
