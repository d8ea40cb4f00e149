#pragma once

#include "autograd/variable.h"

namespace brigade::autograd {

/// y = max(x, 0). Backward needs only y: dx = dy where y > 0 (the subgradient at 0 is 0, as in
/// PyTorch).
Variable relu(const Variable& x);

}  // namespace brigade::autograd
