#include "optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace brigade::optim {

double LrSchedule::at(std::int64_t step) const {
  if (step < warmup) {
    return lr * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  }
  if (shape == Shape::constant) {
    return lr;
  }
  const auto falling = static_cast<double>(std::max<std::int64_t>(steps - warmup, 1));
  const double progress = std::min(static_cast<double>(step - warmup) / falling, 1.0);
  const double remains =
      shape == Shape::linear ? 1.0 - progress : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return lr * (last_fraction + (1.0 - last_fraction) * remains);
}

}  // namespace brigade::optim
