#include "tests/bench/turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <vector>

namespace brigade::bench {
namespace {

/// In ms.
struct StepTime {
  double elapsed = 0.0;
  double processor = 0.0;
};

double clock_ms(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

StepTime time_of(const std::function<void()>& step) {
  const StepTime begin{clock_ms(CLOCK_MONOTONIC), clock_ms(CLOCK_PROCESS_CPUTIME_ID)};
  step();
  return {clock_ms(CLOCK_MONOTONIC) - begin.elapsed,
          clock_ms(CLOCK_PROCESS_CPUTIME_ID) - begin.processor};
}

double quantile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1) + 0.5)];
}

Quartiles quartiles(const std::vector<double>& values) {
  return {quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75)};
}

}  // namespace

Turns take_turns(int rounds, const std::function<void()>& without,
                 const std::function<void()>& with) {
  constexpr int kWarmUp = 3;
  std::vector<double> without_ms;
  std::vector<double> with_ms;
  std::vector<double> elapsed;
  std::vector<double> processor;
  for (int round = -kWarmUp; round < rounds; ++round) {
    const bool with_first = round % 2 == 0;
    const StepTime first = time_of(with_first ? with : without);
    const StepTime second = time_of(with_first ? without : with);
    const StepTime& on = with_first ? first : second;
    const StepTime& off = with_first ? second : first;
    if (round >= 0) {
      with_ms.push_back(on.elapsed);
      without_ms.push_back(off.elapsed);
      elapsed.push_back(on.elapsed / off.elapsed);
      processor.push_back(on.processor / off.processor);
    }
  }
  return {quantile(without_ms, 0.5), quantile(with_ms, 0.5), quartiles(elapsed),
          quartiles(processor)};
}

std::string to_json(int depth, int width, int batch, int rounds, const Turns& turns,
                    const char* without, const char* with) {
  const auto& [without_ms, with_ms, elapsed, processor] = turns;
  return fmt::format(R"({{"depth": {}, "width": {}, "batch": {}, "rounds": {}, )"
                     R"("{}_ms": {:.3f}, "{}_ms": {:.3f}, )"
                     R"("ratio": {:.4f}, "ratio_p25": {:.4f}, "ratio_p75": {:.4f}, )"
                     R"("processor_ratio": {:.4f}, "processor_ratio_p25": {:.4f}, )"
                     R"("processor_ratio_p75": {:.4f}}})",
                     depth, width, batch, rounds, without, without_ms, with, with_ms,
                     elapsed.median, elapsed.p25, elapsed.p75, processor.median, processor.p25,
                     processor.p75);
}

}  // namespace brigade::bench
