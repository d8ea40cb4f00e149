#pragma once

#include "autograd/variable.h"

namespace brigade::autograd {

/// y = a + b, equal shapes.
Variable add(const Variable& a, const Variable& b);

}  // namespace brigade::autograd
