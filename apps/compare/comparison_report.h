#pragma once

#include <array>
#include <string>
#include <vector>

#include "apps/compare/comparison.h"
#include "apps/report/console.h"

/// What people and programs read of a comparison.
namespace brigade::apps {

/// What stays the same in a comparison.
struct ComparisonInfo {
  Options options;
  dist::RankInfo ranks;
  Device device;
  std::string comm;
  std::string libraries;
  MlpShape shape;
  std::int64_t parameters = 0;
  std::int64_t threads = 1;
};

/// " (emulated link)" where an emulated link has a part in the times, else nothing.
const char* emulated_text(const ComparisonInfo& info);

/// What is compared, line by line: ranks, device, model, batch, turns.
std::vector<std::string> comparison_start(const ComparisonInfo& info);

/// The columns of the table behind the mode's name. Times in ms.
inline constexpr std::array<const char*, 14> kColumns{
    "step",     "p10",      "p90",   "forward",  "backward", "comm",      "exposed",
    "hidden %", "slower %", "colls", "MiB/rank", "sent",     "samples/s", "speed-up"};

/// The median step of the first mode / that of this one.
double speed_up(const Comparison& result, const ModeResult& mode);

/// One row of the table.
struct ModeRow {
  std::string name;
  std::vector<std::string> cells;
};
std::vector<ModeRow> comparison_rows(const Comparison& result);

/// How it was measured, whether the weights are equal, and reading().
std::vector<std::string> comparison_notes(const ComparisonInfo& info, const Comparison& result);

void print_comparison_start(const Console& console, const ComparisonInfo& info);
void print_comparison(const Console& console, const ComparisonInfo& info, const Comparison& result);

/// The step a perfect reducer would reach with the measured parts, in ms: bucket b starts when its
/// gradients are ready and bucket b-1 has arrived, and takes as long as in mode flat, where nothing
/// disturbs it. 0 if flat was not measured, and with several micro-batches.
///
///   start_b = max(ready_b, end_(b-1))   end_b = start_b + T_b   ready_b: without communication
///   step = max(end of backward, end_last) + optimizer
double bound_ms(const ComparisonInfo& info, const Comparison& result);

/// The figures in plain words, one sentence or two each: what is exposed and why, and what to try.
std::vector<std::string> reading(const ComparisonInfo& info, const Comparison& result);

/// compare.json
std::string comparison_json(const ComparisonInfo& info, const Comparison& result);

}  // namespace brigade::apps
