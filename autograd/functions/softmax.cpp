#include "autograd/functions/softmax.h"

#include "autograd/functions/binary.h"
#include "autograd/functions/reduce.h"
#include "autograd/functions/unary.h"
#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {
namespace {

// Both are arithmetic on constants, which records nothing, and one node whose backward needs only
// y. Composed of recorded functions they would keep five tensors.

/// x - max x, as a constant. An Error names the function.
Variable shifted(const char* name, const Variable& x, std::int64_t dim) {
  ops::reduce_shape(name, x.shape(), dim);
  const Variable constant(x.data());
  return constant - max(constant, dim, /*keepdim=*/true);
}

}  // namespace

// dx = y (dy - Σ y dy)
Variable softmax(const Variable& x, std::int64_t dim) {
  const Variable powers = exp(shifted("softmax", x, dim));
  const Variable y(powers / sum(powers, dim, /*keepdim=*/true));
  return record("softmax", y.data(), x, [y, dim](const Tensor& dy, Tensor& dx, Scale scale) {
    const Variable gradient(dy);
    const Variable rest = gradient - sum(y * gradient, dim, /*keepdim=*/true);
    ops::binary(BinaryOp::mul, y.data(), rest.data(), scale, dx);
  });
}

// dx = dy - exp(y) Σ dy
Variable log_softmax(const Variable& x, std::int64_t dim) {
  const Variable terms = shifted("log_softmax", x, dim);
  const Variable y = terms - log(sum(exp(terms), dim, /*keepdim=*/true));
  return record("log_softmax", y.data(), x, [y, dim](const Tensor& dy, Tensor& dx, Scale scale) {
    const Variable rest = exp(y) * sum(Variable(dy), dim, /*keepdim=*/true);
    ops::binary(BinaryOp::sub, dy, rest.data(), scale, dx);
  });
}

}  // namespace brigade::autograd
