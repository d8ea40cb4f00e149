#include "autograd/functions/embedding.h"

#include "autograd/node.h"
#include "core/error.h"
#include "core/ops.h"

namespace brigade::autograd {

Variable embedding(const Tensor& indices, const Variable& weight) {
  BRIGADE_CHECK(weight.shape().rank() == 2, "embedding: expected weight [V, D], got ",
                weight.shape());
  const std::span<const std::int64_t> positions = indices.shape().extents();
  std::vector<std::int64_t> extents(positions.begin(), positions.end());
  extents.push_back(weight.shape()[1]);
  Tensor y = Tensor::empty_like(weight.data(), Shape(extents));
  ops::embedding(indices, weight.data(), y);
  return record("embedding", y, weight, [indices](const Tensor& dy, Tensor& dw, Scale scale) {
    ops::embedding_backward(indices, dy, scale, dw);
  });
}

}  // namespace brigade::autograd
