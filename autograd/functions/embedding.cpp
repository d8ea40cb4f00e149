#include "autograd/functions/embedding.h"

#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {

Variable embedding(const Tensor& indices, const Variable& weight) {
  Tensor y =
      Tensor::empty_like(weight.data(), ops::embedding_shape(indices.shape(), weight.shape()));
  ops::embedding(indices, weight.data(), y);
  return record("embedding", y, weight, [indices](const Tensor& dy, Tensor& dw, Scale scale) {
    ops::embedding_backward(indices, dy, scale, dw);
  });
}

}  // namespace brigade::autograd
