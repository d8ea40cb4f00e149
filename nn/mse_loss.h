#pragma once

#include "nn/loss.h"

namespace brigade::nn {

/// Mean squared error over all elements. The target is a tensor like the prediction, or class
/// labels i64 [N], which stand for their one-hot rows.
class MSELoss final : public Loss {
 public:
  autograd::Variable operator()(const autograd::Variable& prediction,
                                const Tensor& target) const override;
};

}  // namespace brigade::nn
