#pragma once

#include <string>
#include <vector>

#include "apps/compare/comparison.h"
#include "apps/metrics/figure.h"
#include "apps/report/console.h"

/// A comparison for people, and compare.json.
namespace brigade::apps {

// In a RunInfo only what stays the same in a comparison is set: not the steps, buckets and rates.

/// What is compared, line by line: setting_lines() and the turns.
std::vector<std::string> comparison_start(const RunInfo& info);

/// A row for each mode and, last, for the steps without communication. Its figures are those of
/// compare.json; the ones with a place are the columns of the table.
std::vector<FigureRow> comparison_rows(const RunInfo& info, const Comparison& result);

/// The buckets of mode overlap in the order in which they left, in ms after the start of the step:
/// when the gradients were ready, when the all-reduce began and when it ended. Empty where no such
/// step was recorded.
TextGrid bucket_grid(const Comparison& result);

/// How it was measured, whether the weights are equal, and reading().
std::vector<std::string> comparison_notes(const RunInfo& info, const Comparison& result);

void print_comparison_start(const Console& console, const RunInfo& info);
void print_comparison(const Console& console, const RunInfo& info, const Comparison& result);

/// compare.json
std::string comparison_json(const RunInfo& info, const Comparison& result);

}  // namespace brigade::apps
