#pragma once

#include "nn/loss.h"

namespace brigade::nn {

/// Mean over samples of -log softmax(prediction)[label].   target: class labels, i64 [N]
class CrossEntropyLoss final : public Loss {
 public:
  autograd::Variable operator()(const autograd::Variable& prediction,
                                const Tensor& target) const override;
};

}  // namespace brigade::nn
