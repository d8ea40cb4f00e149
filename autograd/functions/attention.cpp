#include "autograd/functions/attention.h"

#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {

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

}  // namespace brigade::autograd
