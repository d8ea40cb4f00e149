#pragma once

#include <string>
#include <vector>

#include "apps/compare/comparison.h"
#include "apps/metrics/figure.h"
#include "apps/report/console.h"

/// A comparison for people, and compare.json.
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

/// What is compared, line by line: ranks, device, model, batch, turns.
std::vector<std::string> comparison_start(const ComparisonInfo& info);

/// A row for each mode and, last, for the steps without communication. Its figures are those of
/// compare.json; the ones with a place are the columns of the table.
std::vector<FigureRow> comparison_rows(const ComparisonInfo& info, const Comparison& result);

/// How it was measured, whether the weights are equal, and reading().
std::vector<std::string> comparison_notes(const ComparisonInfo& info, const Comparison& result);

void print_comparison_start(const Console& console, const ComparisonInfo& info);
void print_comparison(const Console& console, const ComparisonInfo& info, const Comparison& result);

/// compare.json
std::string comparison_json(const ComparisonInfo& info, const Comparison& result);

}  // namespace brigade::apps
