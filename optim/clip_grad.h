#pragma once

#include "optim/optimizer.h"

namespace brigade::optim {

/// torch.nn.utils.clip_grad_norm_: scales all gradients that optimizer.step() is going to use by
/// min(1, max_norm / (norm + 1e-6)), so that together they are no longer than max_norm and point
/// where they did (Pascanu et al., arXiv:1211.5063). Returns the norm before clipping, f64 [].
///
/// Call it between backward, whose end has averaged the gradients over the ranks, and step(): all
/// ranks then have the same norm, without another collective. Two kernels per flat span; the host
/// does not wait. One NaN among the gradients makes all of them NaN, which the loss shows. Errors:
/// max_norm is not above 0; backward or updates in flight have used the gradients already.
Tensor clip_grad_norm(Optimizer& optimizer, double max_norm);

}  // namespace brigade::optim
