#pragma once

#include <chrono>

#include "dist/comm/communicator.h"

namespace brigade::dist {

/// How far this rank's steady_clock is ahead of rank 0's at one moment.
struct ClockOffset {
  std::chrono::steady_clock::time_point when;  ///< on this rank's clock
  double ms = 0.0;
  double error_ms = 0.0;  ///< the true value lies within ms ± error_ms
};

/// Measures it. Collective; takes two all-gathers of one time stamp per round.
///
/// Nobody leaves an all-gather before everybody has entered it. So when rank r enters at a_r and
/// leaves at b_r, each on its own clock, the clock of r is ahead of rank 0's by at least a_r - b_0
/// and at most b_r - a_0. The intersection over many rounds is as narrow as the fastest of them;
/// its middle is the offset and half its width the error. (The reasoning of Cristian's algorithm,
/// 1989, with the round trip split into its two directions.)
ClockOffset measure_clock_offset(Communicator& comm, int rounds);

/// The offset at time `when` on this rank's clock, from one measured before and one after it:
/// clocks of two hosts drift apart evenly.
double interpolate_ms(const ClockOffset& before, const ClockOffset& after,
                      std::chrono::steady_clock::time_point when);

}  // namespace brigade::dist
