#pragma once

#include <functional>
#include <string>

namespace brigade::bench {

/// The middle of what several rounds gave, and the quartiles around it.
struct Quartiles {
  double p25 = 0.0, median = 0.0, p75 = 0.0;
};

/// What a step costs with something and without it, in ms, and the ratios with / without of the
/// rounds: of elapsed time, and of the process's processor time, which counts all its threads and
/// does not count other programs.
struct Turns {
  double without_ms = 0.0;
  double with_ms = 0.0;
  Quartiles elapsed;
  Quartiles processor;
};

/// Lets the two take turns, a step each per round; who begins changes from round to round. A few
/// rounds before the first are not counted.
Turns take_turns(int rounds, const std::function<void()>& without,
                 const std::function<void()>& with);

/// {"depth": 8, ..., "plain_ms": 60.1, "wrapped_ms": 60.2, "ratio": 1.001, ...}: for `without` =
/// "plain" and `with` = "wrapped".
std::string to_json(int depth, int width, int batch, int rounds, const Turns& turns,
                    const char* without, const char* with);

}  // namespace brigade::bench
