#pragma once

#include "autograd/variable.h"

namespace brigade::nn {

/// Overwrites a parameter on the CPU with normal numbers of mean 0 and deviation `std`, from the
/// next parameter stream of this thread, as torch.nn.init.normal_.
void init_normal(const autograd::Variable& parameter, double std);

}  // namespace brigade::nn
