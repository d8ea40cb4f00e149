#pragma once

#include <cstdint>

namespace brigade::optim {

/// The learning rate of each step: it rises linearly through the first `warmup` steps, then stays,
/// or falls to `last_fraction` of itself at step `steps`, in a line or along half a cosine
/// (Loshchilov & Hutter, arXiv:1608.03983, equation 5).
///
///   optimizer.set_lr(schedule.at(step));   // step: from 0
struct LrSchedule {
  enum class Shape : std::uint8_t { constant, linear, cosine };

  double lr = 0.0;  ///< the highest
  Shape shape = Shape::constant;
  std::int64_t warmup = 0;
  std::int64_t steps = 0;  ///< of the whole run
  double last_fraction = 0.1;

  double at(std::int64_t step) const;
};

}  // namespace brigade::optim
