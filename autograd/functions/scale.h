#pragma once

#include "autograd/variable.h"

namespace brigade::autograd {

/// y = factor x.
Variable scale(const Variable& x, double factor);

}  // namespace brigade::autograd
