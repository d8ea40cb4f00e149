#include "dist/launch/clock_alignment.h"

#include <algorithm>
#include <limits>

#include "dist/comm/gather.h"

namespace brigade::dist {
namespace {

using Clock = std::chrono::steady_clock;

double ms_of(Clock::time_point time) {
  return std::chrono::duration<double, std::milli>(time.time_since_epoch()).count();
}

}  // namespace

ClockOffset measure_clock_offset(Communicator& comm, int rounds) {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    const double entered = ms_of(Clock::now());
    const std::vector<double> entries = all_gather_values(comm, entered);
    const double left = ms_of(Clock::now());
    const std::vector<double> exits = all_gather_values(comm, left);
    least = std::max(least, entered - exits[0]);
    most = std::min(most, left - entries[0]);
  }
  if (comm.rank() == 0) {
    return {Clock::now(), 0.0, 0.0};
  }
  return {Clock::now(), (least + most) / 2.0, (most - least) / 2.0};
}

double interpolate_ms(const ClockOffset& before, const ClockOffset& after, Clock::time_point when) {
  const double between = ms_of(after.when) - ms_of(before.when);
  const double share = between > 0.0 ? (ms_of(when) - ms_of(before.when)) / between : 0.0;
  return before.ms + (after.ms - before.ms) * std::clamp(share, 0.0, 1.0);
}

}  // namespace brigade::dist
