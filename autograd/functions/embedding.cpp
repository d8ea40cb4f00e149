#include "autograd/functions/embedding.h"

#include <vector>

#include "autograd/node.h"
#include "core/error.h"
#include "core/ops_layers.h"

namespace brigade::autograd {
namespace {

class EmbeddingNode final : public Node {
 public:
  explicit EmbeddingNode(Tensor indices) : indices_(std::move(indices)) {}
  const char* name() const override { return "embedding"; }

  void backward(const Tensor& dy, GradWriter& grads) override {
    grads.write(0,
                [&](Tensor& dw, Scale scale) { ops::embedding_backward(indices_, dy, scale, dw); });
  }

  void release() override { indices_ = Tensor(); }

 private:
  Tensor indices_;  // i64 [...]
};

}  // namespace

Variable embedding(const Tensor& indices, const Variable& weight) {
  BRIGADE_CHECK(weight.shape().rank() == 2, "embedding: expected weight [V, D], got ",
                weight.shape());
  std::vector<std::int64_t> extents(indices.shape().extents().begin(),
                                    indices.shape().extents().end());
  extents.push_back(weight.shape()[1]);
  Tensor y = Tensor::empty(Shape(extents), weight.data().dtype(), weight.device());
  ops::embedding(indices, weight.data(), y);
  return record<EmbeddingNode>(std::move(y), {weight}, indices);
}

}  // namespace brigade::autograd
