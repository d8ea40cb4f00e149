#pragma once

#include "autograd/variable.h"
#include "core/random.h"

namespace brigade::autograd {

/// While training, sets each element to 0 with probability p in [0, 1) and divides the others by
/// 1 - p, as torch.nn.functional.dropout. Otherwise returns x itself.
///
/// Element i is decided by number i of `stream`, on every device alike. Each call needs a stream of
/// its own (sequences::kDropout + number of the call). Ranks that are to drop different elements
/// use streams of different seeds. Backward computes the mask again, so none is stored.
Variable dropout(const Variable& x, double p, bool training, RandomStream stream);

/// The same with this thread's next_dropout_stream(): each call in training drops other elements.
/// Ranks that called manual_seed with the same seed drop the same elements; set_dropout_position
/// (core/random.h) gives each rank elements of its own.
inline Variable dropout(const Variable& x, double p = 0.5, bool training = true) {
  return dropout(x, p, training, training ? next_dropout_stream() : RandomStream());
}

}  // namespace brigade::autograd
