#include "autograd/functions/matmul.h"

#include <algorithm>

#include "autograd/node.h"
#include "core/error.h"
#include "core/ops.h"

namespace brigade::autograd {
namespace {

using ops::Trans;

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
                "dimensions of a, got {} and {}; reshape to one of these",
                left, right);
  const std::size_t last = left.rank() - 1;
  const std::int64_t n = right[right.rank() - 1];
  Tensor y = Tensor::empty_like(a.data(), left.with_extent(last, n));
  // With one b the matrices of a are the rows of one large matrix: a single product of a, as
  // [rows, k], and b.
  Tensor factor = a.data();
  Tensor product = y;
  if (right.rank() == 2) {
    const std::int64_t rows = left.with_extent(last, 1).numel();
    factor = factor.reshape({rows, right[0]});
    product = product.reshape({rows, n});
  }
  ops::matmul(factor, Trans::no, b.data(), Trans::no, {}, product);
  return record(
      "matmul", y, {a, b},
      [factor, b = b.data(), matrices = product.shape()](const Tensor& dy, GradWriter& grads) {
        const Tensor dy_matrices = dy.reshape(matrices);
        grads.write(1, [&](Tensor& db, Scale scale) {
          ops::matmul(factor, Trans::yes, dy_matrices, Trans::no, scale, db);
        });
        grads.write(0, [&](Tensor& da, Scale scale) {
          Tensor da_matrices = da.reshape(factor.shape());
          ops::matmul(dy_matrices, Trans::no, b, Trans::yes, scale, da_matrices);
        });
      });
}

}  // namespace brigade::autograd
