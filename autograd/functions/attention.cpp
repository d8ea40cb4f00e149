#include "autograd/functions/attention.h"

#include <cmath>
#include <limits>

#include "autograd/functions/binary.h"
#include "autograd/functions/dropout.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/shape.h"
#include "autograd/functions/softmax.h"
#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {
namespace {

/// 0 where position j <= i, else minus infinity.   [length, length]
Variable causal_mask(std::int64_t length, const Tensor& like) {
  std::vector<double> mask;
  for (std::int64_t i = 0; i < length; ++i) {
    for (std::int64_t j = 0; j < length; ++j) {
      mask.push_back(j <= i ? 0.0 : -std::numeric_limits<double>::infinity());
    }
  }
  const std::vector<float> floats(mask.begin(), mask.end());
  const Shape shape{length, length};
  return Variable(like.dtype() == DType::f64 ? Tensor::from(mask, shape, like.device())
                                             : Tensor::from(floats, shape, like.device()));
}

}  // namespace

Variable causal_attention(const Variable& qkv, std::int64_t heads, DropoutArgs dropout) {
  const Tensor& x = qkv.data();
  const Shape shape = ops::attention_shape(x.shape(), heads);
  Tensor y = Tensor::empty_like(x, shape);
  Tensor log_sums = Tensor::empty_like(x, {shape[0], heads, shape[1]});
  ops::attention(x, heads, dropout, y, log_sums);
  return record("causal_attention", y, qkv,
                [x, heads, dropout, y, log_sums](const Tensor& dy, Tensor& dqkv, Scale scale) {
                  ops::attention_backward(x, heads, dropout, y, log_sums, dy, scale, dqkv);
                });
}

Variable composed_attention(const Variable& qkv, std::int64_t heads, DropoutArgs dropped) {
  const Shape shape = ops::attention_shape(qkv.shape(), heads);  // [N, T, W]
  const std::int64_t width = shape[2] / heads;
  // [N, T, 3 heads, D] to [N, 3 heads, T, D]
  const Variable parts =
      permute(reshape(qkv, {shape[0], shape[1], 3 * heads, width}), {0, 2, 1, 3});
  const auto part = [&](std::int64_t i) { return slice(parts, 1, i * heads, (i + 1) * heads); };
  const Variable scores =
      matmul(part(0), transpose(part(1), 2, 3)) / std::sqrt(static_cast<double>(width));
  const Variable weights = dropout(softmax(scores + causal_mask(shape[1], qkv.data())), dropped.p,
                                   /*training=*/true, dropped.stream);
  return reshape(permute(matmul(weights, part(2)), {0, 2, 1, 3}), {shape[0], shape[1], shape[2]});
}

}  // namespace brigade::autograd
