#pragma once

#include "autograd/variable.h"

namespace brigade::autograd {

/// One row of `weight` per index, as torch.nn.functional.embedding.
///
///   indices: i64 [...]   weight: [V, D]   result: [..., D]
///
/// dW[v] is the sum of dy over the positions with index v, added in the order of the positions by
/// one thread: the same bits in every run. On the CPU an index outside [0, V) is an Error. On a GPU
/// it makes its row of the result NaN, which the loss shows, and adds nothing to dW.
Variable embedding(const Tensor& indices, const Variable& weight);

}  // namespace brigade::autograd
