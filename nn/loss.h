#pragma once

#include "autograd/variable.h"

namespace brigade::nn {

/// A training objective for `prediction` [N, out]: a scalar to call autograd::backward on.
class Loss {
 public:
  virtual ~Loss() = default;
  virtual autograd::Variable operator()(const autograd::Variable& prediction,
                                        const Tensor& target) const = 0;
};

}  // namespace brigade::nn
